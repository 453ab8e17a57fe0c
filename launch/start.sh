#!/usr/bin/env bash
# In an archive of launch/bundle.sh: starts its program with the LibTorch of a Python that has torch 2.11. Installs nothing and
# needs no network.
#
#   ./start.sh FLAGS...               as ./snake_ddp FLAGS: alone, or as a rank of torchrun or srun
#   ./start.sh --gpu_check [FOLDER]   launch/gpu_check.sh with these programs
#   ./start.sh --build                compiles the sources for this processor and this torch; later calls start the result.
#                                     Needs g++ 12, cmake 3.28 and ninja
#   SNAKE_DDP_PYTHON=python3          the Python with torch
set -euo pipefail
give_up() { printf 'start.sh on %s: %s\n' "$(uname -n)" "$*" >&2; exit 2; }
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
python=${SNAKE_DDP_PYTHON:-python3}

command -v "$python" >/dev/null || give_up "there is no $python: name a Python that has torch 2.11 in SNAKE_DDP_PYTHON"
{ read -r version; read -r torch; } < <("$python" - <<'END'
import importlib.metadata, importlib.util, os
spec = importlib.util.find_spec("torch")
print(importlib.metadata.version("torch") if spec else "none")
print(os.path.dirname(spec.origin) if spec else "")
END
) || give_up "$python failed"
[[ $version == 2.11.* ]] ||
  give_up "$(command -v "$python") has torch $version, not 2.11: name another Python in SNAKE_DDP_PYTHON"

if [ "${1:-}" = --build ]; then
  for tool in g++ cmake ninja; do
    command -v $tool >/dev/null || give_up "--build needs $tool"
  done
  ln -sf libz.so.1 "$here/lib/libz.so"
  cmake -S "$here" -B "$here/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSNAKE_DDP_MARCH=native -DSNAKE_DDP_BUNDLED=ON \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_PREFIX_PATH="$here/headers;$here" -DCMAKE_INCLUDE_PATH="$here/headers/include" \
    -DCMAKE_LIBRARY_PATH="$here/lib" -DCMAKE_CXX_FLAGS="-isystem $here/headers/include" \
    -DPython3_EXECUTABLE="$(command -v "$python")" || give_up "cmake could not configure the build"
  ninja -C "$here/build" snake_ddp || give_up "the build failed"
  exit 0
fi

bin=$here/bin
if [ -x "$here/build/src/app/snake_ddp" ]; then
  bin=$here/build
else
  flags=" $(sed -n '/^flags/{p;q}' /proc/cpuinfo) "
  for need in avx2 bmi2 fma movbe; do
    [[ $flags == *" $need "* ]] ||
      give_up "this processor has no $need, and the program was compiled for x86-64-v3: compile it here with ./start.sh --build"
  done
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
  oldest=$(cat "$here/lib/glibc")
  [ "$(printf '%s\n' "$oldest" "$glibc" | sort -V | head -n 1)" = "$oldest" ] ||
    give_up "this system has glibc ${glibc:-unknown}, older than $oldest: compile the program here with ./start.sh --build"
  if [ -f "$bin/src/app/libsnake_ddp_cuda.so" ] && [ ! -f "$torch/lib/libc10_cuda.so" ]; then
    give_up "torch $version of $python has no CUDA libraries, which the program was linked with: use another Python, or compile the
program here with ./start.sh --build"
  fi
fi
export LD_LIBRARY_PATH="$torch/lib:$(dirname "$torch")/nvidia/cu13/lib:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

if [ "${1:-}" = --gpu_check ]; then
  shift
  export SNAKE_DDP_BIN=$bin
  exec "$here/launch/gpu_check.sh" ${1:+"$(realpath -m "$1")"}
fi
exec "$bin/src/app/starter/snake_ddp" "$@"
