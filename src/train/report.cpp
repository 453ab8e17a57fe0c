#include <fmt/format.h>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>

#include "session.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/curriculum.hpp"
#include "train/plan.hpp"

namespace snake_ddp::train {
namespace {

int difficulty(const Plan& o, std::int64_t episode) {
  return game::difficulty_at(o.curriculum, std::clamp<std::int64_t>(episode, 1, o.max_episodes),
                             o.max_episodes);
}

void report_first_update(Session& s) {
  if (s.reported.first_update || s.counters.updates == s.start.updates) return;
  s.reported.first_update = true;
  s.reporter->line(fmt::format("First update after {:.1f} s: {} in rank 0's {}", seconds_since(s.begin),
                               core::counted(s.pipeline->count().replay_size, "transition"),
                               learns_from_rollouts(s.o) ? "rollout" : "replay"));
}

void report_ranks(Session& s) {
  const std::vector<RankStats>& now = s.agreed.rank_stats;
  Reported& last = s.reported;
  const std::chrono::duration<double, std::micro> passed = s.agreed.at - last.rank_stats_at;
  if (now.size() < 2 || passed.count() <= 0) return;
  std::vector<RankState> ranks;
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    RankState state{s.context.hosts()[rank], std::nullopt, static_cast<double>(now[rank].memory_mb)};
    if (rank < last.rank_stats.size() && now[rank].waited_us >= 0) {
      const auto waited = static_cast<double>(now[rank].waited_us - last.rank_stats[rank].waited_us);
      state.own_work = std::clamp(1 - waited / passed.count(), 0.0, 1.0);
    }
    ranks.push_back(state);
  }
  s.reporter->ranks(ranks);
  last.rank_stats = now;
  last.rank_stats_at = s.agreed.at;
}

void report_pace(Session& s, const learners::UpdateStats* stats) {
  Reported& last = s.reported;
  const double passed = seconds_since(last.at);
  const auto rate = [&](std::int64_t count) { return static_cast<double>(count) / passed; };
  const std::optional<SpanTimer::Spans> all_reduce =
      s.context.backend() == "none" ? SpanTimer::Spans{} : s.all_reduce.take();
  const Pace pace{rate((s.counters.steps - last.steps) * s.o.num_envs * s.context.size()),
                  rate(s.counters.updates - last.updates),
                  all_reduce ? std::optional(all_reduce->mean_ms) : std::nullopt,
                  all_reduce ? std::optional(all_reduce->total_ms / 1000 / passed) : std::nullopt,
                  core::resident_mb(),
                  gpu_memory_mb(s.context.device())};
  const PipelineCount count = s.pipeline->count();
  const int level = s.o.mix.empty() ? difficulty(s.o, count.episodes_ended) : last.level;
  if (s.agreed.collected.env_steps > 0) s.reporter->collected(count.episodes_ended, s.agreed.collected);
  report_ranks(s);
  s.reporter->pace(count.episodes_ended, pace, stats, count.epsilon, level, count.replay_size);
  last.at = Clock::now();
  last.steps = s.counters.steps;
  last.updates = s.counters.updates;
}

}  // namespace

double gpu_memory_mb(const at::Device& device) {
#ifdef SD_HAVE_CUDA
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return static_cast<double>(stats.allocated_bytes[0].current) / 1048576.0;
  }
#endif
  (void)device;
  return 0.0;
}

void report(Session& s, const std::vector<rollout::Episode>& ended) {
  if (!s.reporter) return;
  s.reporter->steps(s.counters.board_steps);
  report_first_update(s);
  if (ended.empty() && !s.reporter->due()) return;
  if (s.recorder) {
    const std::string failure = s.recorder->take_failure();
    if (!failure.empty()) s.reporter->line(fmt::format("No game log: {} Training continues", failure));
  }
  // Numbers on a GPU are requested at a report and arrive for the next one.
  const learners::UpdateStats* stats = s.stats.newest();
  if (s.counters.updates > s.start.updates &&
      (s.context.device().is_cpu() || stats == nullptr || s.reporter->due())) {
    s.stats.ask(*s.learner);
    stats = s.stats.newest();
  }
  for (const rollout::Episode& e : ended) {
    s.reported.level = game::level_of(e.opponent);
    s.reporter->episode(e, s.o.mix.empty() ? difficulty(s.o, e.started) : s.reported.level,
                        e.opponent == game::Rival{game::Opponent::kEvasion}, stats);
  }
  if (s.reporter->due()) report_pace(s, stats);
}

}  // namespace snake_ddp::train
