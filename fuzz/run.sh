#!/usr/bin/env bash
# fuzz/run.sh [SECONDS] [TARGET...]: builds the fuzz targets and runs libFuzzer on each for this long (60 s, all
# targets). New inputs go to build/fuzz/corpus, and one that breaks something to build/fuzz/findings; then the exit
# code is 1. Needs clang. CORES=2 runs two targets at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
targets=("$@")
if [ ${#targets[@]} = 0 ]; then targets=(weights checkpoint config games encodings boards greeting); fi

python=${SNAKE_DDP_PYTHON:-$PWD/.venv/bin/python3}
export PATH=$(dirname "$python"):$PATH
build=build/fuzz
cmake --preset fuzz -DPython3_EXECUTABLE="$python" >/dev/null
cmake --build --preset fuzz >&2
mkdir -p $build/findings

# LibTorch holds memory for the life of the process; the CUDA kernels need the gap.
export ASAN_OPTIONS=detect_leaks=0:protect_shadow_gap=0:${ASAN_OPTIONS:-} UBSAN_OPTIONS=print_stacktrace=1
# Inputs have 64 KiB at most. The largest single allocation for one is a gzip file's text of 64 MiB while it doubles,
# the largest sum a million JSON values of a hundred bytes more; LibTorch and the sanitizer's quarantine take 700 MB.
limits=(-max_len=65536 -timeout=20 -malloc_limit_mb=200 -rss_limit_mb=2048)

fuzz() {
  local target=$1 log=$build/$1.log
  mkdir -p "$build/corpus/$target"
  if $build/fuzz/fuzz_"$target" "$build/corpus/$target" "fuzz/corpus/$target" -max_total_time="$seconds" "${limits[@]}" \
    -artifact_prefix="$build/findings/$target-" -print_final_stats=1 >"$log" 2>&1; then verdict=fine; else verdict=FOUND; fi
  echo "$target: $verdict, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions," \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -1)"
  [ $verdict = fine ] || { tail -40 "$log"; return 1; }
}

failed=0
running=0
for target in "${targets[@]}"; do
  fuzz "$target" &
  running=$((running + 1))
  if [ $running -ge "${CORES:-1}" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
done
while [ $running -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
