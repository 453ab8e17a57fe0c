#!/usr/bin/env bash
# tests/threads.sh: ThreadSanitizer over what runs in several threads. Builds the preset `tsan` (some minutes the first
# time), runs the tests of the rooms that use them, and runs of two ranks with every thread that there is: watchdog,
# joining, the store, Gloo, checkpoints beside training, recording, a stop by a signal, loaders. A race fails it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${SNAKE_DDP_PYTHON:-$PWD/.venv/bin/python3}
export PATH=$(dirname "$python"):$PATH
build=build/tsan
cmake --preset tsan -DPython3_EXECUTABLE="$python" >/dev/null
cmake --build $build --target snake_ddp test_dist test_train test_io test_learners test_rollout test_pretrain >&2

export TSAN_OPTIONS="suppressions=$PWD/tests/threads.supp:second_deadlock_stack=1:allocator_may_return_null=1:exitcode=66:${TSAN_OPTIONS:-}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
expect() {  # CODE NAME COMMAND...
  local code=0
  "${@:3}" >"$scratch/output.txt" 2>&1 || code=$?
  if [ $code = "$1" ] && ! grep -q 'WARNING: ThreadSanitizer' "$scratch/output.txt"; then
    echo "$2: clean"
  else
    cat "$scratch/output.txt"
    echo "$2: exit code $code"
    failed=1
  fi
}

# It forks, and ThreadSanitizer loses its way in a child of a process that has had threads: so first, in a process of its own.
forks='runs that start together*'
expect 0 "run folders of several processes" $build/tests/io/test_io "$forks"
for room in dist train io learners rollout pretrain; do
  expect 0 "tests of $room" $build/tests/$room/test_$room "[unit]~$forks"
done

snake_ddp=$build/src/app/snake_ddp
settings=(--hidden_size 16 --batch_size 16 --num_envs 4 --episode_length 100 --buffer_size 1000 --checkpoint_interval 2
  --check_consistency 50 --eval_interval 8 --eval_games 8 --record_interval 4 --threads 1 --runs_dir "$scratch")
ranks=(--ddp --world_size 2)
expect 0 "two ranks" $snake_ddp "${ranks[@]}" "${settings[@]}" --max_episodes 16
expect 0 "two ranks through Gloo" env LD_PRELOAD=$build/tests/train/libno_shared_memory.so $snake_ddp "${ranks[@]}" "${settings[@]}" --max_episodes 16
expect 0 "weights averaged" $snake_ddp "${ranks[@]}" "${settings[@]}" --max_episodes 16 --local_updates 30 --outer_momentum 0.8
expect 0 "a league" $snake_ddp "${ranks[@]}" "${settings[@]}" --max_episodes 16 --algo dqn --obs view \
  --opponent_mix territory:0.3,self:0.3,league:0.4 --league_interval 3 --league_games 100 --league_win_rate 0
expect 75 "a stop by a signal" timeout --signal=TERM --preserve-status 30 $snake_ddp "${ranks[@]}" "${settings[@]}" \
  --max_episodes 1000000 --resume never
expect 0 "recording boards" $snake_ddp eval --team_a level2 --team_b level4 --games 40 --record_boards "$scratch/games/a.boards"
expect 0 "pretraining" $snake_ddp pretrain "${ranks[@]}" --stage tokenizer --data_path "$scratch/games" --epochs 2 \
  --cache_dir "$scratch/cache" --save_dir "$scratch/pretrained" --batch_size 16 --num_workers 2 --threads 1
exit $failed
