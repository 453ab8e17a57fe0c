#!/usr/bin/env bash
# Measures two builds or two presets in turn on one core, several rounds, and prints how much longer B takes than A.
#
#   dev/compare.sh build/before build/release update --config configs/dqn.json   a bench of two builds, with its flags
#   dev/compare.sh configs/reference.json configs/ddpg.json   training runs of two presets, with build/release
#
#   ROUNDS=5    rounds, each one A and one B; which goes first alternates
#   SECONDS_EACH=1  time for each measurement
#   CORE=0      the core; empty: any
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
a=$1 b=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-1} core=${CORE-0}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

once() {  # once <build or preset> <result> <flags of the bench>
  local line=("$1/dev/bench/bench" "${@:3}") pinned=()
  [ -z "$core" ] || pinned=(taskset -c "$core")
  [[ $1 != *.json ]] || line=("${BENCH:-$root/build/release/dev/bench/bench}" train --rounds 1 --ranks 1 --config "$1")
  [ -x "${line[0]}" ] || { echo "there is no ${line[0]}: $1 is neither a preset (*.json) nor a build" >&2; exit 2; }
  "${pinned[@]}" "${line[@]}" --seconds "$seconds" --json >"$2"
}

for ((round = 0; round < rounds; ++round)); do
  order=(a b)
  if ((round % 2)); then order=(b a); fi
  for which in "${order[@]}"; do once "${!which}" "$results/$which$round.json" "$@"; done
done
python3 "$root/dev/compare.py" "$results" "$rounds"
