// The algorithm, and the run around it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "dist/ranks.hpp"
#include "dist/signals.hpp"
#include "learners/learner.hpp"
#include "session.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/plan.hpp"

namespace snake_ddp::train {
namespace {

// The updates that one step of the boards brings: all of a rollout's once it is complete, or, from the first full batch on,
// --updates_per_step for each board. Counted in steps, which are equal on all ranks.
double updates_of_step(const Plan& o, Counters& n) {
  if (learns_from_rollouts(o)) {
    if (n.steps - n.empty_at < o.rollout_steps) return 0;
    n.empty_at = n.steps;
    return static_cast<double>(o.rollout_epochs * batches_per_epoch(o));
  }
  const bool is_warm = (n.steps - n.empty_at - o.n_step + 1) * o.num_envs >= o.batch_size;
  return is_warm ? o.updates_per_step * static_cast<double>(o.num_envs) : 0.0;
}

// What the ranks agree on between two votes on everything.
struct Pause {
  std::int64_t stop = 0;  // got a stop request
  std::int64_t slow = 0;  // took more than a second since the last of these votes
};

// When they do: seldom enough to cost nothing, often enough for a stop to wait for seconds only, however long updates take.
struct Pauses {
  std::int64_t every = 1, voted_at = 0;  // updates
  Clock::time_point voted = Clock::now();
};

// Whether the ranks stop now, after a step's move or one of its updates, as they do after a vote in keep(). They vote by the
// number of updates, which is equal on all ranks, and only where their weights are.
bool pauses(Session& s, Pauses& p) {
  constexpr std::int64_t kSeldom = 50;
  const Counters& n = s.counters;
  if ((n.updates_due < 1.0 && n.steps % s.votes_every == 0) || !s.averaging->are_synchronised() ||
      (s.context.size() > 1 && n.updates - p.voted_at < p.every))
    return false;
  const bool slow = Clock::now() - p.voted > std::chrono::seconds(1);
  const Pause agreed = dist::vote(Pause{dist::stop_requested() ? 1 : 0, slow ? 1 : 0}, s.context);
  p = {agreed.slow > 0 ? std::max<std::int64_t>(1, p.every / 2) : std::min(2 * p.every, kSeldom), n.updates};
  return (s.agreed.stop = agreed.stop) > 0;
}

Progress progress(const Session& s) { return {s.counters.steps * s.o.num_envs, s.counters.updates}; }

// Plays, samples, learns, reports and keeps, step by step, until a vote ends the run.
void train(Session& s) {
  const Plan& o = s.o;
  Counters& n = s.counters;
  Pipeline& pipeline = *s.pipeline;
  std::vector<rollout::Episode> ended;
  Pauses pause;
  // A run that was stopped between two votes goes on to the next one.
  for (bool go_on = n.steps % s.votes_every != 0 || begin_periodic(s); go_on;) {
    ended.clear();
    // After a stop within a step, its updates come first.
    if (n.updates_due < 1.0) {
      // 1. Play: one move on every board; transitions go to replay.
      s.watchdog.tick("playing");
      if (o.league && n.steps % s.votes_every == 0)
        pipeline.deal(rivals_of(o, s.context.rank(), s.league, n.steps));
      const Clock::time_point begin = Clock::now();
      pipeline.step(ended);
      ++n.steps;
      n.board_steps += o.num_envs * s.context.size();
      if (n.steps % s.votes_every == 0) pipeline.fetch(ended);
      s.collected.add(ended, Clock::now() - begin);
      n.updates_due += updates_of_step(o, n);
    }

    // 2. Sample a batch, as often as updates are due.
    if (o.lr_end != 1.0) s.learner->scale_rates(rate_factor(o, n.steps, n.board_steps));
    while ((go_on = !pauses(s, pause)) && n.updates_due >= 1.0) {
      pipeline.draw();
      // 3. Learn from it: gradients are averaged over the ranks.
      s.watchdog.tick("learning");
      pipeline.learn(s.averaging->reduce());
      s.averaging->updated();
      ++n.updates;
      n.updates_due -= 1.0;
    }
    if (!go_on) pipeline.fetch(ended);
    if (s.watch) s.watch(progress(s));

    // 4. Report. Without this step the weights would be the same.
    report(s, ended);
    if (n.updates_due >= 1.0) break;

    // All ranks have equal weights for what they decide and do together.
    if (n.steps % s.votes_every == 0) {
      s.averaging->synchronise();
      pause = {pause.every, n.updates};
    }

    // 5. Keep: save, vote with all ranks whether to go on, compare weights, evaluate, take checkpoints.
    go_on = keep(s) && go_on;
  }
}

}  // namespace

core::ExitCode run_training(const TrainOptions& options, const dist::World& world, const Watch& watch,
                            std::chrono::milliseconds patience) {
  check_together(options);
  check_start(Plan(options), world, dist::visible_gpus());
  dist::watch_signals();
  Session session(options, world, watch, patience);
  if (!session.over.empty()) return core::kExitDone;
  try {
    train(session);
    return end(session);
  } catch (const core::Error& e) {
    const auto* lost = dynamic_cast<const core::DistError*>(&e);
    if (lost == nullptr || session.o.checkpoint_interval == 0) throw;
    throw core::DistError(
        fmt::format("{}; to continue from the last checkpoint: --resume {}", e.what(), session.folder),
        lost->peer_only);
  }
}

}  // namespace snake_ddp::train
