#!/usr/bin/env bash
# Runs the three stages: tokenizer, mask predictor, QMIX with the predicted tokens under a limited view. Flags go to the
# last one. After a stop (exit code 75) the same command continues: finished stages are short. With --resume never the last
# one begins anew.
#
#   NPROC=2 GAMES=pretrain_games OUT=pretrained launch/pretrain.sh --max_minutes 20
#
#   NPROC    ranks (default: GPUs, else cores, at most 8)
#   GAMES    folder of recorded games (default: pretrain_games); if it does not exist, 6000 are recorded into it
#   OUT      output folder (default: pretrained); the last stage's run is in OUT/runs
#   RADIUS   cells that a snake sees around its head (default 4)
set -euo pipefail
stopped=
stop() {  # set-up in progress finishes first
  stopped=yes
  kill -TERM "${!-}" 2>/dev/null || exit 75  # no stage is running
}
trap stop TERM INT HUP USR1
trap 'kill -USR2 "${!-}" 2>/dev/null || true' USR2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/setup.sh

sd_lock
sd_install_packages
sd_environment
sd_build release snake_ddp
sd_unlock

sd_ranks
games=${GAMES:-pretrain_games}
games=${games%/} out=${OUT:-pretrained} radius=${RADIUS:-4}

start() {  # torchrun with one process per rank
  local code=0
  [ -z "$stopped" ] || exit 75  # the stage before was done before it noticed
  ./snake_ddp --become "$SD_PYTHON" launch/torchrun.py --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1 \
    --nproc_per_node="$SD_RANKS" --no-python ./snake_ddp "$@" &
  while kill -0 $! 2>/dev/null; do wait $! || true; done  # a signal ends the wait early
  wait $! || code=$?
  [ "$code" = 0 ] || exit "$code"
}

if [ ! -d "$games" ]; then
  for pair in "level2 level4" "level2 territory" "evasion territory"; do
    read -r a b <<<"$pair"
    start eval --team_a "$a" --team_b "$b" --games 2000 --record_boards "$games.part/${a}_$b.boards"
  done
  mv "$games.part" "$games"
fi
shape=(--hidden_dim 64 --num_encoder_layers 2 --num_decoder_layers 2)
data=(--data_path "$games" --cache_dir "$out/cache" --save_dir "$out" --view_radius "$radius")
start pretrain --stage tokenizer "${data[@]}"
start pretrain --stage mask_predictor "${data[@]}" "${shape[@]}"
start train --runs_dir "$out/runs" --resume auto --algo qmix --obs window --view_radius "$radius" --tokens "$out" "$@"
