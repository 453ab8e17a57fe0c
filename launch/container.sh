#!/usr/bin/env bash
# The entry point of a container: trains with torchrun and resumes the newest run in RUNS_DIR, if there is one.
# Flags go to snake_ddp. torchrun reads the numbers of machines and ranks, and the address of the first machine, from PET_*
# variables, which Kubeflow's operator sets; PET_NPROC_PER_NODE=4 alone gives four ranks in one container.
#
#   RUNS_DIR=/runs     one folder per job, visible to all its containers
#   MAX_RESTARTS=3     how often torchrun restarts the ranks when one fails
#
# Exits with 75 if the run was stopped and can be resumed. torchrun itself then exits with 0 in the containers that did not
# get the signal, and the operator would consider the job done.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs_dir=${RUNS_DIR:-/runs}
torchrun=
stop() {
  if [ -n "$torchrun" ]; then kill -TERM "$torchrun"; else exit 75; fi
}
trap stop TERM INT HUP USR1
[ -w "$runs_dir" ] || { echo "RUNS_DIR=$runs_dir is not a folder that user $(id -u) may write to" >&2; exit 4; }

case " $* " in
  *" --runs_dir"[\ =]* | *" --runs-dir"[\ =]*)
    echo "--runs_dir: set RUNS_DIR instead, where this script looks for the marker of a stop" >&2
    exit 2
    ;;
esac
# Report wrong flags once, not once per rank.
./snake_ddp train --check_settings --runs_dir "$runs_dir" "$@" >/dev/null || exit

# Like --standalone, but without resolving "localhost", which fails on minimal systems.
alone=()
[ "${PET_NNODES:-1}" != 1 ] || alone=(--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
./snake_ddp --become .venv/bin/python3 launch/torchrun.py "${alone[@]}" --max-restarts="${MAX_RESTARTS:-3}" --no-python \
  ./snake_ddp train --runs_dir "$runs_dir" --resume auto "$@" &
torchrun=$!

can_go_on() {
  local marker
  for marker in "$runs_dir"/*/run*/checkpoints/resumable; do
    [ ! -e "$marker" ] || return 0
  done
  return 1
}
# When another container gets a stop signal, the ranks stop here too, and torchrun here would wait five minutes for its peer.
# The marker of an earlier stop is removed when the run resumes; a marker after that belongs to this start.
running=no
while kill -0 "$torchrun" 2>/dev/null; do
  sleep 1 &
  wait -n "$torchrun" $!  # a trap ends it early
  if ! can_go_on; then
    running=yes
  elif [ "$running" = yes ]; then
    kill -TERM "$torchrun" 2>/dev/null
    running=no
  fi
done
wait "$torchrun"
code=$?
if can_go_on; then exit 75; fi
exit "$code"
