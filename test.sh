#!/usr/bin/env bash
# Sets up what is missing, builds, and runs the whole suite. The last line is `N passed, N failed`.
#
#   ./test.sh                  everything: the release build, then unit, property and golden tests under ASan and UBSan
#   ./test.sh quick            the tests of the release build that start no programs: unit, golden, property, conformance, repo; a minute
#   ./test.sh release -R dist  only the release build, with ctest's own flags
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. launch/setup.sh
# Python keeps what it compiled. Without that, each torchrun compiles 700 modules when it starts.
unset PYTHONDONTWRITEBYTECODE

presets=(release asan)
quick=()
if [ "${1:-}" = quick ]; then
  presets=(release)
  quick=(-L '^(unit|golden|property|conformance|repo)$' -LE '^program$')
  shift
elif [ $# -gt 0 ]; then
  presets=("$1")
  shift
fi

sd_lock
sd_install_packages test
sd_environment test
reports=()
for preset in "${presets[@]}"; do
  if [ "$preset" = release ]; then
    sd_build "$preset" all
    select=("${quick[@]}")
  else
    sd_build "$preset" sd_sanitized_tests
    select=(-L '^(unit|property|golden)$' -E '^test_')  # test_*.py drive the release build
    # LibTorch never frees some of its memory; tests without it check our own code for leaks.
    # And it allocates so often that long stacks of allocations would take a tenth of the time.
    export ASAN_OPTIONS=detect_leaks=0:protect_shadow_gap=0:malloc_context_size=8 UBSAN_OPTIONS=print_stacktrace=1
  fi
  rm -rf "build/$preset/junit" && mkdir -p "build/$preset/junit"
  say "testing the $preset build"
  # One more than cores: many tests mostly wait for other processes.
  ctest --test-dir "build/$preset" -j "$(($(sd_cores) + 1))" --output-on-failure --no-tests=error \
    --output-junit "$PWD/build/$preset/ctest.xml" "${select[@]}" "$@" >&2 9>&- || true  # the report below decides
  reports+=("build/$preset")
done
sd_unlock
exec "$SD_PYTHON" tests/report.py "${reports[@]}"
