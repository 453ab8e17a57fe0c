#!/usr/bin/env bash
# The first process of a container: trains with torchrun and goes on with the newest run in RUNS_DIR, if there is one.
# Flags go to snake_ddp. How many machines and ranks there are, and where the first one is, torchrun reads from PET_*
# variables: Kubeflow's operator sets them; PET_NPROC_PER_NODE=4 alone is four ranks in one container.
#
#   RUNS_DIR=/runs     one folder for each job, which all its containers see
#   MAX_RESTARTS=3     so many times torchrun starts the ranks anew when one fails
#
# Ends with 75 where the run was stopped and can go on. torchrun itself says 0 then in those containers that did not get
# the signal, and whoever looks after the job would take it for done.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs_dir=${RUNS_DIR:-/runs}
torchrun=
stop() {
  if [ -n "$torchrun" ]; then kill -TERM "$torchrun"; else exit 75; fi
}
trap stop TERM INT HUP USR1
[ -w "$runs_dir" ] || { echo "RUNS_DIR=$runs_dir is not a folder that user $(id -u) may write to" >&2; exit 4; }

# Wrong flags get one message here instead of one from each rank.
./snake_ddp train --check_settings "$@" || exit

# As --standalone, but without asking who "localhost" is: bare systems do not know.
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
# When another container is told to stop, the ranks stop here too, and torchrun then waits five minutes for its fellow
# there. The marker of the stop before goes as soon as the run goes on; one that comes after that is of this start.
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
