#!/usr/bin/env bash
# Sets up what is missing, then trains on every GPU of this machine, or on its CPU cores. All flags go to snake_ddp.
#
#   ./train_ddp.sh --config configs/champion.json
#   NPROC=4 ./train_ddp.sh ...           ranks on this machine (default: GPUs, else cores, at most 8)
#   NNODES=2 MASTER_ADDR=host ./train_ddp.sh ...   on each of two machines; MASTER_PORT defaults to 29500.
#                                        NODE_RANK=0 on the first and 1 on the second: launch/two_nodes.md
set -euo pipefail
# Finished set-up is kept. Set-up in progress finishes first, unless it gets the signal too.
trap 'echo "== stopped by a signal before training began; nothing was started" >&2; exit 75' TERM INT HUP USR1
trap : USR2
cd "$(dirname "${BASH_SOURCE[0]}")"
. launch/setup.sh

sd_lock
sd_install_packages
sd_environment
sd_build release snake_ddp
sd_unlock

# Report wrong flags once, not once per rank.
case " $* " in
  *" --help "* | *" -h "*) exec ./snake_ddp train "$@" ;;
  *" --version "*) exec ./snake_ddp --version ;;
esac
./snake_ddp train --check_settings "$@" >/dev/null  # the run says what it has

sd_ranks
export SNAKE_DDP_SCRIPT=./train_ddp.sh  # for the message that says how to continue

if [ "${NNODES:-1}" = 1 ]; then
  # Like --standalone, which takes a free port, but without resolving "localhost", which fails on minimal systems.
  rendezvous=(--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1)
else
  [ -n "${MASTER_ADDR:-}" ] || give_up "NNODES=$NNODES needs MASTER_ADDR, the host name of the first machine"
  [ -z "${NODE_RANK:-}" ] || [[ $NODE_RANK =~ ^(0|[1-9][0-9]*)$ && $NODE_RANK -lt $NNODES ]] ||
    give_up "NODE_RANK=$NODE_RANK is not the number of one of $NNODES machines, from 0 on"
  if [ -n "${NODE_RANK:-}" ]; then
    rendezvous=(--nnodes="$NNODES" --node_rank="$NODE_RANK" --master_addr="$MASTER_ADDR" --master_port="${MASTER_PORT:-29500}")
  else
    rendezvous=(--nnodes="$NNODES" --rdzv-backend=c10d --rdzv-id="${RUN_ID:-snake_ddp}"
                --rdzv-endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}")
  fi
fi
# exec: a signal to this script must reach torchrun.
exec ./snake_ddp --become "$SD_PYTHON" launch/torchrun.py "${rendezvous[@]}" --nproc_per_node="$SD_RANKS" \
  --no-python ./snake_ddp train "$@"
