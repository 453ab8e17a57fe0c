#!/usr/bin/env bash
# launch/gpu_check.sh [FOLDER]: the first ten minutes on a machine with a GPU. Each step has a limit of its own, and all of them
# together have one; what a step prints goes into FOLDER (gpu_check), with a table of all steps and measurements as report.md and
# report.json. Without a GPU every step but the first is reported as "not run: no device".
#
#   SNAKE_DDP_BIN=build/release   a build
#   SNAKE_DDP_TOTAL_S=600         all steps together; what cannot begin in this time is reported as not run
#   SNAKE_DDP_STEP_S=600          no step takes longer than this, whatever its own limit
#   SNAKE_DDP_STEPS=REGEX         only the steps whose names match
#   SNAKE_DDP_NCCL=PATH/libnccl.so.2   an NCCL of 2.30 or newer, with which several ranks share the GPU
#   SNAKE_DDP_PYTHON=python3      the Python with torch 2.11
#
# Exit code 0: nothing failed. 1: a step failed, took too long, or missed its bar.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
folder=${1:-gpu_check}
bin=${SNAKE_DDP_BIN:-build/release}
total=${SNAKE_DDP_TOTAL_S:-600}
longest=${SNAKE_DDP_STEP_S:-600}
python=${SNAKE_DDP_PYTHON:-python3}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
: >"$folder/steps.tsv"
snake_ddp=$bin/src/app/snake_ddp

device=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -1) || device=
lacking=  # what this machine lacks for the steps that follow
absent() { if [ -z "$device" ]; then echo "no device"; elif [ -n "$lacking" ]; then echo "$lacking"; else return 1; fi; }

note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$folder/steps.tsv"; }

# step NAME LIMIT_S COMMAND...: one line of its output becomes the result: the last one.
step() {
  local name=$1 limit=$(($2 < longest ? $2 : longest)) left=$((total - SECONDS)) log code=0 begin=$SECONDS reason
  shift 2
  [[ $name =~ ${SNAKE_DDP_STEPS:-.} ]] || return
  reason=$(absent) || command -v "$1" >/dev/null || reason="no $1"
  [ -n "$reason" ] || [ $left -gt 0 ] || reason="the $total s for all steps are used up"
  if [ -n "$reason" ]; then
    note "$name" "not run: $reason" 0 ""
    return
  fi
  limit=$((limit < left ? limit : left))
  log=$folder/${name//[^a-z0-9]/_}.log
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null || code=$?
  case $code in
    0) note "$name" passed $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
    124 | 137) note "$name" "failed: longer than $limit s" $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
    *) note "$name" "failed: exit code $code" $((SECONDS - begin)) "$(tail -n 1 "$log")" ;;
  esac
}

train() { "$snake_ddp" train --device cuda --boards device --runs_dir "$folder/runs" --num_envs "$@"; }

train_little() { train 4 --hidden_size 16 --batch_size 16 --max_episodes 20 --buffer_size 1000 "$@" | grep '^Fingerprint: '; }

# same_weights FLAGS...: recordings change no bit.
same_weights() {
  local graph line first=
  for graph in off on; do
    line=$(train_little "$@" --products float32 --cuda_graph $graph) || return 1
    echo "cuda_graph $graph: $line"
    [ -z "$first" ] || [ "$line" = "$first" ] || return 1
    first=$line
  done
}

# over_nccl: a single rank with NCCL trains like one without, plain and recorded.
over_nccl() {
  local graph line first
  first=$(train_little --cuda_graph off) || return 1
  echo "alone: $first"
  export WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT
  for graph in off on; do
    MASTER_PORT=$(python3 -c 'import socket; s = socket.create_server(("", 0)); print(s.getsockname()[1])')
    line=$(train_little --cuda_graph $graph --dist_backend nccl) || return 1
    echo "over NCCL, cuda_graph $graph: $line"
    [ "$line" = "$first" ] || return 1
  done
}

# to_bar PERCENT SECONDS BOARDS FLAGS...: trains on so many boards until an evaluation wins PERCENT of its games, or for SECONDS.
to_bar() {
  local percent=$1 most=$2 boards=$3 log won begin=$SECONDS took code=0
  shift 3
  log=$(train "$boards" --cuda_graph on --max_minutes "$(awk "BEGIN {print $most / 60}")" --target_win_rate "0.$percent" "$@") || code=$?
  took=$((SECONDS - begin))
  echo "$log"
  won=$(sed -nE 's/^\[Evaluation at episode .*: won ([0-9]+).*/\1/p' <<<"$log" | tail -n 1)
  [ $code = 0 ] && [ -n "$won" ] || return 1
  echo "won $won % after $took s; the bar is $percent % in $most s"
  [ "$won" -ge "$percent" ] && [ $took -le "$most" ]
}
export -f same_weights over_nccl to_bar train train_little
export snake_ddp folder

# Without a driver too: it says so itself.
device=${device:-none} step "device against host" 240 "$bin/tests/rollout/device_check"
# NoTests: a program without such a test fails.
step "kernels against the host" 150 "$bin/tests/rollout/test_rollout" "[.device]" -w NoTests
step "learners against the host" 60 "$bin/tests/learners/test_learners" "[.device]" -w NoTests
step "recordings, NCCL with one rank" 60 "$bin/tests/train/test_train" "[.device]" -w NoTests
for algo in ddpg dqn qmix pqn_vdn; do
  step "same weights: $algo" 60 bash -c 'same_weights --algo "$0"' $algo
done
step "same weights: pqn_vdn against all" 90 bash -c 'same_weights --algo pqn_vdn --obs ahead --mask_fatal \
  --reward score --opponent_mix "level2,self,league,file:models/champion.pth" --league_games 100 --league_interval 10'
step "one rank's run over NCCL" 60 bash -c over_nccl
bench() { step "bench: $1" "$2" "$bin/dev/bench/bench" "${@:3}" --device cuda --json; }
bench "game" 60 game --boards 65536 --seconds 5
bench "game, a million boards" 60 game --boards 1048576 --seconds 5
bench "update" 60 update --batch_size 128 --batch_size 8192 --seconds 3
for products in float32 tf32; do
  bench "update, dqn with layer norm, $products" 30 update --config configs/dqn.json --batch_size 384 --batch_size 8192 \
    --products $products --seconds 1
done
step "80 % against level 2" 90 bash -c 'to_bar 80 60 4096 --config configs/ddpg.json'
step "80 % against territory" 150 bash -c 'to_bar 80 120 4096 --config configs/champion_gpu.json'
step "95 % against territory" 120 bash -c 'to_bar 95 90 128 --config configs/champion.json'
export PYTORCH_NO_CUDA_MEMORY_CACHING=1  # each tensor has memory of its own
for tool in memcheck initcheck; do
  step "sanitizer: $tool" 120 compute-sanitizer --tool $tool --error-exitcode 9 "$bin/tests/rollout/test_rollout" \
    "1 and 63 boards on a device play the host's games" -w NoTests
done
unset PYTORCH_NO_CUDA_MEMORY_CACHING
# The first 20 calls of a bench warm up.
for kernel in PlayBoard SeeView; do
  step "profile: $kernel" 60 ncu --set full --clock-control none --kernel-name-base demangled -k regex:$kernel --launch-skip 20 -c 3 \
    "$bin/dev/bench/bench" game --device cuda --boards 65536 --seconds 0.1
done

# Several ranks on this GPU, which NCCL allows from 2.30 on: docs/gpu.md.
nccl_version() {
  "$python" -c 'import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)' "$1" 2>/dev/null
}
[ -n "${SNAKE_DDP_NCCL:-}" ] && [ "$(nccl_version "$SNAKE_DDP_NCCL" || echo 0)" -ge 23000 ] || lacking="no NCCL 2.30"
export SNAKE_DDP_NCCL PYTHONPATH=tests SD_SOURCE_DIR=$PWD SD_BUILD_DIR
SD_BUILD_DIR=$(realpath -m "$bin")
# together RANKS LIMIT_S STEP [LEARNER]
together() { step "$1 ranks: ${*:3}" "$2" "$python" tests/train/gpu_ranks.py "$1" "${@:3}"; }
for ranks in 2 4; do
  while read -r limit what learner; do
    together $ranks "$limit" "$what" ${learner:+"$learner"}
    if [ "$what" = reduce ]; then  # what it needed, the steps after it need, too
      for setting in $(sed -n 's/^works with: //p' "$folder/${ranks}_ranks__reduce.log" 2>/dev/null); do export "${setting?}"; done
    fi
  done <<'END'
80 reduce
120 weights ddpg
120 weights dqn
120 weights qmix
120 weights pqn_vdn
60 union ddpg
60 union dqn
60 union qmix
60 union pqn_vdn
60 sums
120 killed
120 suspended
90 asked
60 sizes
60 late
40 absent
40 version
END
done
[ -x train_ddp.sh ] || lacking=${lacking:-no train_ddp.sh}  # an archive has none
for ranks in 2 4; do together $ranks 120 script; done

DEVICE=${device:-none} python3 - "$folder" <<'END'
import json
import os
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
steps = [dict(zip(("step", "result", "seconds", "says"), line.split("\t"))) for line in (folder / "steps.tsv").read_text().splitlines()]
benches = []
for step in steps:
    step["seconds"] = int(step["seconds"])
    if step["says"].startswith('{"benches":'):
        rows = json.loads(step["says"])["benches"]
        step["says"] = f"{len(rows)} measurements"
        benches += rows


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", " ") for cell in line) + " |\n" for line in lines)


text = f"Device: {os.environ['DEVICE']}\n\n" + table(["step", "result", "seconds", "last line"], [step.values() for step in steps])
if benches:
    text += "\n" + table(["bench", "value", "unit", "limit", "ratio"],
                         [[row["name"], f"{row['value']:.4g}", row["unit"], f"{row['limit']:.4g}", f"{row['ratio']:.3f}"] for row in benches])
(folder / "report.json").write_text(json.dumps({"device": os.environ["DEVICE"], "steps": steps, "benches": benches}, indent=1) + "\n")
(folder / "report.md").write_text(text)
print(text, end="")
sys.exit(any(step["result"].startswith("failed") for step in steps))
END
