#!/usr/bin/env bash
# launch/gpu_check.sh [FOLDER]: the first ten minutes on a machine with a GPU. Each step has a limit of its own; what it prints
# goes into FOLDER (gpu_check), with a table of all steps as report.md and report.json. Without a GPU every step but the first is
# reported as "not run: no device".
#
#   SNAKE_DDP_BIN=build/release   a build
#   SNAKE_DDP_STEP_S=600          no step takes longer than this, whatever its own limit
#
# Exit code 0: nothing failed. 1: a step failed or took too long.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
folder=${1:-gpu_check}
bin=${SNAKE_DDP_BIN:-build/release}
longest=${SNAKE_DDP_STEP_S:-600}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
: >"$folder/steps.tsv"
snake_ddp=$bin/src/app/snake_ddp

device=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -1) || device=
absent() { [ -z "$device" ] && echo "no device"; }

note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$folder/steps.tsv"; }

# step NAME LIMIT_S COMMAND...: one line of its output becomes the result: the last one.
step() {
  local name=$1 limit=$(($2 < longest ? $2 : longest)) log code=0 begin=$SECONDS reason
  shift 2
  reason=$(absent) || command -v "$1" >/dev/null || reason="no $1"
  if [ -n "$reason" ]; then
    note "$name" "not run: $reason" 0 ""
    return
  fi
  log=$folder/${name//[^a-z0-9]/_}.log
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null || code=$?
  case $code in
    0) note "$name" passed $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
    124 | 137) note "$name" "failed: longer than $limit s" $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
    *) note "$name" "failed: exit code $code" $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
  esac
}

train() { echo "$snake_ddp" train --device cuda --boards device --runs_dir "$folder/runs" --num_envs "$@"; }

# same_weights ALGO: recordings and a second stream change no bit.
same_weights() {
  local graph overlap line first=
  for overlap in off on; do
    first=
    for graph in off on; do
      line=$($(train 4 --algo "$1" --cuda_graph $graph --overlap $overlap --hidden_size 16 --batch_size 16 --max_episodes 40 \
        --buffer_size 1000) | grep '^Fingerprint: ') || return 1
      echo "overlap $overlap, cuda_graph $graph: $line"
      [ -z "$first" ] || [ "$line" = "$first" ] || return 1
      first=$line
    done
  done
}
export -f same_weights train
export snake_ddp folder

# Without a driver too: it says so itself.
device=${device:-none} step "device against host" 300 "$bin/tests/rollout/device_check"
# NoTests: a program without such a test fails.
step "kernels against the host" 120 "$bin/tests/rollout/test_rollout" "[.device]" -w NoTests
step "Adam on the device" 60 "$bin/tests/learners/test_learners" "[.device]" -w NoTests
step "NCCL with one rank" 60 "$bin/tests/train/test_train" "[.device]" -w NoTests
for algo in ddpg dqn qmix; do
  step "same weights: $algo" 60 bash -c 'same_weights "$0"' $algo
done
step "bench: game" 60 "$snake_ddp" bench game --device cuda --seconds 5
step "bench: update" 90 "$snake_ddp" bench update --device cuda --batch_size 128 --batch_size 8192 --seconds 5
loop="--cuda_graph on --overlap on --eval_interval 2000 --max_minutes 2"
# shellcheck disable=SC2046,SC2086
step "40 % against level 2" 150 $(train 4096 --config configs/cpu_fast.json $loop --target_win_rate 0.4)
# shellcheck disable=SC2046,SC2086
step "85 % with the view" 150 $(train 4096 --config configs/champion.json --opponent_mix level2:0.5,territory:0.5 $loop \
  --target_win_rate 0.85)
export PYTORCH_NO_CUDA_MEMORY_CACHING=1  # each tensor has memory of its own
for tool in memcheck initcheck; do
  step "sanitizer: $tool" 180 compute-sanitizer --tool $tool --error-exitcode 9 "$bin/tests/rollout/test_rollout" \
    "a fleet on a device plays the collector's games and stores the same rows" -w NoTests
done
unset PYTORCH_NO_CUDA_MEMORY_CACHING
step "profile of kernels" 90 ncu --set full -k regex:run --launch-skip 40 -c 20 "$snake_ddp" bench game --device cuda --seconds 1

DEVICE=${device:-none} python3 - "$folder" <<'END'
import json
import os
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
steps = [dict(zip(("step", "result", "seconds", "says"), line.split("\t"))) for line in (folder / "steps.tsv").read_text().splitlines()]
report = {"device": os.environ["DEVICE"], "steps": [step | {"seconds": int(step["seconds"])} for step in steps]}
(folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
rows = [f"| {step['step']} | {step['result']} | {step['seconds']} | {step['says'].replace('|', ' ')} |" for step in steps]
text = "\n".join([f"Device: {report['device']}", "", "| step | result | seconds | last line |", "|---|---|---|---|", *rows]) + "\n"
(folder / "report.md").write_text(text)
print(text, end="")
sys.exit(any(step["result"].startswith("failed") for step in steps))
END
