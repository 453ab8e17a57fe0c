# Sourced by train_ddp.sh and test.sh: installs what is missing and builds. Each step checks first and does nothing if its
# work is already done, so a second call takes seconds.
#
#   SNAKE_DDP_PYTHON=/path/to/python3   use this interpreter, with torch 2.11, instead of the virtual environment
#   SNAKE_DDP_JOBS=N                    compile N files at a time (default: cores, at most one per 2 GiB of memory)
#   SNAKE_DDP_MARCH=x86-64-v3           compile for these processors (default: this machine's)
#   SNAKE_DDP_TOOLKIT=/usr/local/cuda   a CUDA toolkit to fill in what the Python environment lacks (default: none)

# With minutes and seconds since the call.
say() { printf '== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }
give_up() { printf 'snake_ddp set-up: %s\n' "$*" >&2; exit 1; }

# sd_packages [test]: the names in launch/packages.txt.
sd_packages() {
  if [ "${1:-}" = test ]; then
    awk '!/^#/ && NF {print $1}' launch/packages.txt
  else
    awk '!/^#/ && NF && !/\[test\]/ {print $1}' launch/packages.txt
  fi
}

# sd_install_packages [test]
sd_install_packages() {
  local missing=() name
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: assuming that these are installed: $(sd_packages "${1:-}" | tr '\n' ' ')"
    return 0
  }
  for name in $(sd_packages "${1:-}"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    give_up "these distribution packages are missing and only root can install them. Run this, then call me again:
  sudo sh -c '$command'"
  fi
  say "installing distribution packages: ${missing[*]}"
  local log
  log=$(mktemp)
  # Another installation may be under way, such as the system's own upgrade at its start.
  if ! { apt-get update -q &&
         DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}"; } \
      >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    give_up "apt-get failed (its last lines are above, all of them in $log). If this machine is offline, run this where it
is not, or with a mirror, then call me again:
  $command"
  fi
  rm -f "$log"
}

# sd_environment [test]: sets SD_PYTHON and puts cmake, ninja and torchrun first in PATH.
sd_environment() {
  # nvcc is installed on machines with a GPU, and for the tests, which always compile the kernels.
  local kind=${1:-train}
  if [ "$kind" = train ] && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then kind=gpu; fi
  local lists=launch/requirements.txt
  case $kind in
    test) lists=launch/requirements-test.txt ;;
    gpu) lists="launch/requirements.txt -r launch/requirements-cuda.txt" ;;
  esac
  if [ -n "${SNAKE_DDP_PYTHON:-}" ]; then
    SD_PYTHON=$SNAKE_DDP_PYTHON
    "$SD_PYTHON" -c 'import torch, sys; sys.exit(not torch.__version__.startswith("2.11."))' ||
      give_up "SNAKE_DDP_PYTHON=$SNAKE_DDP_PYTHON has no torch 2.11; unset it to let me make a virtual environment"
    PATH=$(dirname "$(command -v "$SD_PYTHON")"):$PATH
    command -v ninja >/dev/null && cmake --version 2>/dev/null |
      awk 'NR == 1 {split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 28))}' ||
      give_up "with SNAKE_DDP_PYTHON, ninja and cmake 3.28 or newer must be in PATH: $SD_PYTHON -m pip install cmake ninja"
    return 0
  fi
  SD_PYTHON=$PWD/.venv/bin/python3
  local stamp=.venv/snake_ddp.stamp wanted
  wanted=$(cat launch/requirements.txt launch/requirements-cuda.txt launch/requirements-test.txt | cksum)
  PATH=$PWD/.venv/bin:$PATH
  # The requirements for the tests include those for training, on a GPU too.
  if [ -x "$SD_PYTHON" ] && grep -qx "$wanted $kind\|$wanted test" "$stamp" 2>/dev/null; then return 0; fi
  [ -x "$SD_PYTHON" ] || python3 -m venv .venv || give_up "python3 -m venv .venv failed; is there room on this disk?"
  # Python compiles modules when they are imported; pip would compile all of them.
  say "installing LibTorch and tools into .venv (2.5 GB to fetch, 5 GB on disk; minutes)"
  "$SD_PYTHON" -m pip install --disable-pip-version-check -q --no-compile -r $lists ||
    give_up "pip could not install $lists. If this machine is offline, run this where it is not and copy .venv, or
set PIP_INDEX_URL to a mirror:
  $SD_PYTHON -m pip install -r $lists"
  echo "$wanted $kind" >"$stamp"
}

# sd_cores [root]: the cores that this process may use, at most the CPU quota of its cgroup and those above it, rounded up.
# Plain nproc answers with OMP_NUM_THREADS if that is set.
sd_cores() {
  local cores kind top path quota period
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  while IFS=: read -r _ kind path; do
    case ,$kind, in
      ,,) top=${1-}/sys/fs/cgroup ;;
      *,cpu,*) top=${1-}/sys/fs/cgroup/cpu ;;
      *) continue ;;
    esac
    path=${path%/}
    while :; do
      read -r quota period <<<"$(cd "$top$path" 2>/dev/null && cat cpu.max cpu.cfs_quota_us cpu.cfs_period_us 2>/dev/null | xargs)"
      if [[ $quota =~ ^[1-9][0-9]*$ && $period =~ ^[1-9][0-9]*$ ]]; then
        quota=$(((quota + period - 1) / period))
        cores=$((quota < cores ? quota : cores))
      fi
      [ -n "$path" ] || break
      path=${path%/*}
    done
  done < <(cat "${1-}/proc/self/cgroup" 2>/dev/null)
  echo "$cores"
}

sd_jobs() {
  local cores memory
  cores=$(sd_cores)
  memory=$(awk '/MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo 2>/dev/null)
  [ "${memory:-0}" -ge 1 ] || memory=1
  echo "${SNAKE_DDP_JOBS:-$((cores < memory ? cores : memory))}"
}

# sd_build <preset> <target...>
sd_build() {
  local preset=$1
  shift
  local log=build/$preset.log
  mkdir -p build
  # Reconfigure a folder that was moved or belongs to another interpreter; python and python3 of the same environment
  # count as one.
  local cache=build/$preset/CMakeCache.txt
  if [ -f "$cache" ] && ! { grep -qs "^Python3_EXECUTABLE:.*=$(dirname "$SD_PYTHON")/python[0-9.]*\$" "$cache" &&
                            grep -qs "^CMAKE_HOME_DIRECTORY:.*=$PWD\$" "$cache" &&
                            grep -qs "^SNAKE_DDP_MARCH:.*=${SNAKE_DDP_MARCH:-.*}\$" "$cache"; }; then
    say "build/$preset was configured for another place, interpreter or processor: rebuilding it"
    rm -rf "build/$preset"
  fi
  if [ ! -f "build/$preset/build.ninja" ] || [ CMakePresets.json -nt "$log" ]; then
    cmake --preset "$preset" ${SNAKE_DDP_MARCH:+"-DSNAKE_DDP_MARCH=$SNAKE_DDP_MARCH"} \
        ${SNAKE_DDP_TOOLKIT:+"-DSNAKE_DDP_TOOLKIT=$SNAKE_DDP_TOOLKIT"} -DPython3_EXECUTABLE="$SD_PYTHON" \
        -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" >"$log" 2>&1 || {
      tail -n 30 "$log" >&2
      give_up "cmake could not configure the $preset build (its last lines are above, all in $log)"
    }
  fi
  # Watch the output for work: a dry run would stop at the check for new files.
  ninja -C "build/$preset" -j "$(sd_jobs)" "$@" 2>&1 | tee "$log" | {
    if grep -m 1 -q '\] \(Building\|Linking\)'; then say "building $* ($preset; some minutes the first time)"; fi
    cat >/dev/null
  } || {
    grep -m 5 -A 5 'error' "$log" >&2 || tail -n 30 "$log" >&2
    give_up "the $preset build failed (all of it in $log)"
  }
}

# Two calls must not build into one folder at the same time. A call from within the holder of the lock (the tests start
# ./train_ddp.sh) proceeds at once. Long-running programs get 9>&-, so that processes they leave behind do not hold the lock.
sd_lock() {
  [ "${SNAKE_DDP_LOCKED:-}" != "$(pwd -P)" ] || return 0
  mkdir -p build || give_up "cannot make the folder build here: is $PWD read-only?"
  exec 9>build/.lock
  flock -w 1800 9 || give_up "another call has been setting up for half an hour; is it stuck? (build/.lock)"
  SNAKE_DDP_LOCKED=$(pwd -P)
  export SNAKE_DDP_LOCKED
}
sd_unlock() {
  exec 9>&-
  unset SNAKE_DDP_LOCKED
}

# sd_ranks: sets SD_RANKS, the number of ranks on this machine (NPROC, else its visible GPUs, else its cores, at most 8), and
# OMP_NUM_THREADS to each rank's share of the cores.
sd_ranks() {
  local gpus cores threads
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
  if [ "$gpus" -gt 0 ] && [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then  # a list that ends at -1
    gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | sed '/^-1/,$d' | grep -c . || true)
  fi
  cores=$(sd_cores)
  SD_RANKS=${NPROC:-$((gpus > 0 ? gpus : (cores < 8 ? cores : 8)))}
  [[ $SD_RANKS =~ ^[1-9][0-9]*$ ]] || give_up "NPROC=$SD_RANKS is not a number of ranks"
  threads=$((cores / SD_RANKS))
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}
}
