#!/usr/bin/env bash
# launch/wheel.sh [FOLDER]: the Python package as one wheel with the trainer in it, for `pip install`: the built program, presets and
# models, and the command snake_ddp, which takes LibTorch from torch 2.11 of the same Python. Default: dist
#
#   SNAKE_DDP_BIN=build/release   pack this build; default: build for x86-64-v3 processors into build/bundle
#   SNAKE_DDP_WHEEL=FILE          add it to this wheel of the package; default: build one
set -euo pipefail
folder=$(realpath -m "${1:-dist}")
build=${SNAKE_DDP_BIN:+$(realpath "$SNAKE_DDP_BIN")}
package=${SNAKE_DDP_WHEEL:+$(realpath "$SNAKE_DDP_WHEEL")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/setup.sh

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Quietly; if it fails, with its output.
step() { "$@" >"$stage/log" 2>&1 || { cat "$stage/log" >&2; give_up "this failed: $*"; }; }

SD_PYTHON=python3
if [ -z "$build" ] || [ -z "$package" ]; then
  sd_lock
  sd_install_packages test
  sd_environment test
  if [ -z "$build" ]; then
    SNAKE_DDP_MARCH=x86-64-v3 sd_build bundle snake_ddp
    build=$PWD/build/bundle
  fi
  if [ -z "$package" ]; then
    say "building the package"
    step "$SD_PYTHON" -m pip wheel --no-build-isolation --no-deps --no-index -w "$stage/package" .
    package=$(echo "$stage"/package/*.whl)
  fi
  sd_unlock
fi
[ -x "$build/src/app/snake_ddp" ] || give_up "there is no program in $build: build it with ./test.sh release"

step "$SD_PYTHON" -m wheel unpack -d "$stage/unpacked" "$package"
root=$(echo "$stage"/unpacked/snake_ddp-*)
name=$(basename "$root")
program=$root/snake_ddp/program
mkdir -p "$program/starter" "$program/lib" "$root/snake_ddp/configs" "$root/snake_ddp/models" "$root/$name.data/scripts"
cp "$build/src/app/snake_ddp" "$program/"
cp "$build/src/app/starter/snake_ddp" "$program/starter/"
find "$build/src" -name libsnake_ddp_cuda.so -exec cp {} "$program/lib/" \;  # of a build with CUDA
# What a minimal system may lack. LibTorch brings its own libraries; torch itself needs the C++ library.
ldd "$build/src/app/snake_ddp" | awk '$1 ~ /^lib(fmt|z)\.so/ {print $3}' | xargs -I{} cp -L {} "$program/lib/"
# Libraries are found by the command, where it is installed.
cat >"$stage/alone.cmake" <<'CMAKE'
file(GLOB_RECURSE files "${PROGRAM}/*snake_ddp*")
foreach(file ${files})
  file(RPATH_REMOVE FILE ${file})
endforeach()
CMAKE
step cmake -DPROGRAM="$program" -P "$stage/alone.cmake"
find "$program" -type f -exec strip {} + -exec chmod 755 {} +
git ls-files -z -- configs models | xargs -0 cp --parents -t "$root/snake_ddp"
printf '#!python\n%s\n' \
  'import importlib.util' \
  'import sys' \
  'package = importlib.util.find_spec("snake_ddp")  # not imported: that takes a second' \
  'spec = importlib.util.spec_from_file_location("snake_ddp_program", f"{package.submodule_search_locations[0]}/program.py")' \
  'program = importlib.util.module_from_spec(spec)' \
  'spec.loader.exec_module(program)' \
  'program.main()' >"$root/$name.data/scripts/snake_ddp"
chmod 755 "$root/$name.data/scripts/snake_ddp"
for part in libcli11-dev libfmt-dev libprotozero-dev nlohmann-json3-dev zlib1g-dev librandom123-dev; do
  install -D -m 644 "/usr/share/doc/$part/copyright" "$root/$name.dist-info/licenses/debian/$part/copyright"
  sed -i "0,/^License-File:/s||License-File: debian/$part/copyright\n&|" "$root/$name.dist-info/METADATA"
done

find "$root" -type f \( -name '*.so*' -o -perm -u=x -path '*/program/*' \) -exec objdump -T {} + >"$stage/symbols"
glibc=$(grep -oE 'GLIBC_2\.[0-9]+' "$stage/symbols" | sort -Vu | tail -n 1 | cut -d_ -f2)
cuda=$(objdump -p "$program/snake_ddp" | sed -n 's/^ *NEEDED *libcudart\.so\.//p')
printf '%s\n' "glibc $glibc" "torch 2.11" ${cuda:+"cuda $cuda"} >"$program/needs"
chmod 644 "$program/needs"
step "$SD_PYTHON" -m wheel pack -d "$stage" "$root"
step "$SD_PYTHON" -m wheel tags --remove --platform-tag "manylinux_${glibc/./_}_x86_64" "$stage/$name"-*.whl
wheel=$(echo "$stage/$name"-*.whl)

step "$SD_PYTHON" -m twine check --strict "$wheel"
step check-wheel-contents "$wheel"
step "$SD_PYTHON" -m abi3audit --strict "$wheel"
[ "$(stat -c %s "$wheel")" -le 15000000 ] || give_up "$(basename "$wheel") is larger than 15 MB: $(stat -c %s "$wheel") bytes"
mkdir -p "$folder"
mv "$wheel" "$folder/"
say "$folder/$(basename "$wheel"): $(du -h "$folder/$(basename "$wheel")" | cut -f1); there: pip install \"$(basename "$wheel")[train]\""
