#!/usr/bin/env bash
# launch/bundle.sh [ARCHIVE]: one archive for machines without a network, such as a cluster's compute nodes, where a Python has
# torch 2.11 already: the built program, its tests and benches for a GPU, the sources with the headers that they need, and start.sh, which
# starts or compiles them there. Default: snake_ddp.tar.xz
#
#   SNAKE_DDP_BIN=build/release   pack this build; default: build for x86-64-v3 processors into build/bundle
set -euo pipefail
archive=$(realpath -m "${1:-snake_ddp.tar.xz}")
build=${SNAKE_DDP_BIN:+$(realpath "$SNAKE_DDP_BIN")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/setup.sh

if [ -z "$build" ]; then
  sd_lock
  sd_install_packages test
  sd_environment test
  SNAKE_DDP_MARCH=x86-64-v3 sd_build bundle snake_ddp bench device_check test_rollout test_learners test_train train_probe
  sd_unlock
  build=$PWD/build/bundle
fi
[ -x "$build/src/app/snake_ddp" ] || give_up "there is no program in $build: build it with ./test.sh release"
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/snake_ddp
mkdir -p "$root/lib" "$root/headers/include" "$root/headers/share/cmake"
"$(setting CMAKE_COMMAND)" --install "$build" --component bundle --strip --prefix "$root" >"$stage/install.log" ||
  give_up "the programs in $build could not be copied: build them with ./test.sh release"
# What a minimal system may lack. LibTorch brings its own libraries; the C++ library is everywhere.
ldd "$build/src/app/snake_ddp" | awk '$1 ~ /^lib(fmt|z)\.so/ {print $3}' | xargs -I{} cp -L {} "$root/lib/"
find "$root/bin" "$root/lib" -type f -exec objdump -T {} + >"$stage/symbols"
grep -oE 'GLIBC_2\.[0-9]+' "$stage/symbols" | sort -Vu | tail -n 1 | cut -d_ -f2 >"$root/lib/glibc"

git ls-files -- CMakeLists.txt LICENSE README_DDP.md cmake configs dev/bench dev/reference docs/reference fuzz include launch models src tests third_party \
  ':!tests/data' | tar -c -T - | tar -x -C "$root"
cp launch/start.sh "$root/start.sh"
# The headers that this build read, and no more.
"$(setting CMAKE_MAKE_PROGRAM)" -C "$build" -t deps | grep -oE '/usr/include/(CLI|nlohmann|protozero)/\S+' |
  sort -u | sed 's|^/usr/include/||' >"$stage/headers"
printf '%s\n' zlib.h >>"$stage/headers"
tar -c -h -C /usr/include -T "$stage/headers" | tar -x -C "$root/headers/include"
find /usr/include -name zconf.h -exec cp {} "$root/headers/include/" \;
# third_party has what the Python package needs of these.
cp /usr/include/fmt/*.h "$root/third_party/fmt/fmt/"
cp -r /usr/include/Random123 "$root/third_party/random123/"
cp -r /usr/share/cmake/CLI11 /usr/share/cmake/nlohmann_json "$root/headers/share/cmake/"
for package in libcli11-dev libfmt-dev libprotozero-dev nlohmann-json3-dev zlib1g-dev; do
  mkdir -p "$root/licences/$package"
  cp -L "/usr/share/doc/$package/copyright" "$root/licences/$package/"
done

tar -c --owner=0 --group=0 -C "$stage" snake_ddp | xz -T0 -6 >"$archive"
say "$archive: $(du -h "$archive" | cut -f1); there: tar -xf $(basename "$archive") && snake_ddp/start.sh --help"
