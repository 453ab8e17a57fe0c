#!/usr/bin/env bash
# Runs two builds or two presets in turn on one core, several rounds, and prints how much longer B takes than A.
#
#   bench/compare.sh build/before build/release              all inner loops of two builds
#   bench/compare.sh build/before build/release 'ddpg|adam'  those that match
#   bench/compare.sh configs/reference.json configs/cpu_fast.json   training runs of two presets, with ./snake_ddp
#
#   ROUNDS=5    rounds, each one A and one B; which goes first alternates
#   SECONDS_EACH=0.2  time for each loop in a round; for presets the time of a run, at least 1
#   CORE=0      the core; empty: any
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
a=$1 b=$2 filter=${3:-.}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-0.2} core=${CORE-0}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

once() {  # once <build or preset> <result>
  local pinned=()
  [ -z "$core" ] || pinned=(taskset -c "$core")
  case $1 in
    *.json)
      "${BINARY:-$root/snake_ddp}" bench train --json --rounds 1 --ranks 1 --seconds "$seconds" --config "$1" > "$2" ;;
    *)
      [ -x "$1/bench/loops" ] || {
        echo "$1 is neither a preset (*.json) nor a build with bench/loops; build it with: ninja -C $1 loops" >&2; exit 2; }
      "${pinned[@]}" "$1/bench/loops" --benchmark_filter="$filter" --benchmark_min_time="$seconds" \
        --benchmark_format=json > "$2" 2> "$2.said" || { cat "$2.said" >&2; exit 1; } ;;
  esac
}

for ((round = 0; round < rounds; ++round)); do
  order=(a b)
  if ((round % 2)); then order=(b a); fi
  for which in "${order[@]}"; do once "${!which}" "$results/$which$round.json"; done
done
python3 "$root/bench/compare.py" "$results" "$rounds" "$filter"
