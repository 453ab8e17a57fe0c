#!/usr/bin/env bash
# Runs the three stages: tokenizer, mask predictor, QMIX with the predicted tokens under a limited view. Flags go to the
# last one.
#
#   NPROC=2 GAMES=pretrain_games OUT=pretrained launch/pretrain.sh --max_minutes 20
#
#   NPROC    ranks (default: GPUs, else cores, at most 8)
#   GAMES    folder of recorded games (default: pretrain_games); if it does not exist, 6000 are recorded into it
#   OUT      output folder (default: pretrained)
#   RADIUS   cells that a snake sees around its head (default 4)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/setup.sh

sd_lock
sd_install_packages
sd_environment
sd_build release snake_ddp
sd_unlock

sd_ranks
games=${GAMES:-pretrain_games} out=${OUT:-pretrained} radius=${RADIUS:-4}

start() {  # torchrun with one process per rank
  "$SD_PYTHON" -m torch.distributed.run --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1 \
    --nproc_per_node="$SD_RANKS" --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 --no-python ./snake_ddp "$@"
}

if [ ! -d "$games" ]; then
  for pair in "level2 level4" "level2 territory" "evasion territory"; do
    read -r a b <<<"$pair"
    start eval --team_a "$a" --team_b "$b" --games 2000 --record_boards "$games/${a}_$b.boards"
  done
fi
shape=(--hidden_dim 64 --num_encoder_layers 2 --num_decoder_layers 2)
data=(--data_path "$games" --save_dir "$out" --view_radius "$radius")
start pretrain --stage tokenizer "${data[@]}"
start pretrain --stage mask_predictor "${data[@]}" "${shape[@]}"
start train --algo qmix --obs window --view_radius "$radius" --tokens "$out" "$@"
