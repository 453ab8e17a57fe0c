#!/usr/bin/env bash
# Prints the ten functions that take the most time of one rank on one core, for the reference's schedule and for the
# fast preset.
#
#   dev/profile.sh                        configs/reference.json and configs/ddpg.json
#   dev/profile.sh configs/ddpg.json  another one
#
#   BINARY=./snake_ddp  PROFILE_SECONDS=20  CORE=0  TOP=10
# With perf where it works, else with valgrind's callgrind, which counts instructions instead of time and is about fifty
# times slower. Valgrind knows no AVX-512: build for it with -DSNAKE_DDP_MARCH=x86-64-v3.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${BINARY:-$root/snake_ddp} seconds=${PROFILE_SECONDS:-20} core=${CORE:-0} top=${TOP:-10}
if [ $# -gt 0 ]; then presets=("$@"); else presets=("$root/configs/reference.json" "$root/configs/ddpg.json"); fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

train() {  # train <preset> <seconds> [tool and its flags]
  local preset=$1 minutes
  minutes=$(awk -v s="$2" 'BEGIN { print s / 60 }')
  shift 2
  taskset -c "$core" "$@" "$binary" train --config "$preset" --runs_dir "$folder/runs" --threads 1 --eval_interval 0 \
    --max_episodes 100000000 --max_minutes "$minutes" > "$folder/said" 2>&1 ||
    { tail -5 "$folder/said" >&2; echo "the run of $preset failed" >&2; exit 1; }
}

for preset in "${presets[@]}"; do
  echo "== $(basename "$preset")"
  if perf record -q -o "$folder/try" true > /dev/null 2>&1; then
    # Skips the first two seconds, for loading and filling the first batch.
    train "$preset" "$((seconds + 2))" perf record -q -F 997 -D 2000 -o "$folder/perf"
    perf report -q -i "$folder/perf" --no-children --sort symbol,dso --stdio 2> /dev/null |
      sed 's/[[:space:]]\{2,\}/  /g; s/\(  -\)* *$//' | awk -v top="$top" 'NF && !/^#/ && ++n <= top'
  elif command -v valgrind > /dev/null; then
    train "$preset" "$((seconds + 60))" valgrind -q --tool=callgrind --callgrind-out-file="$folder/callgrind"
    callgrind_annotate --inclusive=no "$folder/callgrind" |
      awk -v top="$top" '/^-+$/ { next } / \(.*%\)/ && !/PROGRAM TOTALS/ && ++n <= top'
  else
    echo "neither perf works here nor is valgrind installed (Debian: linux-perf, valgrind)" >&2
    exit 1
  fi
done
