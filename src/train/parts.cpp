// The parts of a run's time, each measured alone.
#include <cmath>

#include "session.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/train/loop.hpp"
#include "snake_ddp/train/plan.hpp"

namespace snake_ddp::train {
namespace {

// Steps of the boards, and the updates that they bring.
struct Turn {
  std::int64_t steps, updates;
};

Turn turn_of(const Plan& o) {
  if (learns_from_rollouts(o)) return {o.rollout_steps, o.rollout_epochs * rollout_batches(o)};
  constexpr std::int64_t kSteps = 64;
  const double updates = o.updates_per_step * static_cast<double>(o.num_envs * kSteps);
  return updates >= 1 ? Turn{kSteps, std::llround(updates)} : Turn{std::llround(kSteps / updates), 1};
}

}  // namespace

Parts time_parts(const TrainOptions& options, const dist::World& world, double seconds) {
  Session s(options, world, {}, std::chrono::minutes(1));
  Arena& arena = *s.arena;
  const Turn turn = turn_of(s.o);
  std::vector<rollout::Episode> ended;
  const auto play = [&] {
    ended.clear();
    arena.decide();
    arena.move(ended);
  };
  const auto draw = [&] { arena.draw(s.counters.updates++); };
  const auto learn = [&] { arena.learn(s.averaging->lent()); };
  const auto repeat = [&](std::int64_t times, const auto& what) {
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < times; ++i) what();
    s.watchdog.tick("measuring");
    return seconds_since(begin) * 1e6 / static_cast<double>(turn.updates);
  };

  while (!learns_from_rollouts(s.o) && arena.count().replay_size < s.o.batch_size) play();
  while (seconds_since(s.begin) < seconds) {
    repeat(turn.steps, play);
    repeat(turn.updates, [&] { draw(), learn(); });
  }
  Parts sum;
  double turns = 0;
  for (const Clock::time_point begin = Clock::now(); turns == 0 || seconds_since(begin) < seconds; ++turns) {
    sum.play_us += repeat(turn.steps, play);
    sum.draw_us += repeat(turn.updates, draw);
    sum.learn_us += repeat(turn.updates, learn);
  }
  return {sum.play_us / turns, sum.draw_us / turns, sum.learn_us / turns};
}

}  // namespace snake_ddp::train
