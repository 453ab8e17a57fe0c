#include "train/judge.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include "dist/ranks.hpp"

namespace snake_ddp::train {
namespace {

using Clock = std::chrono::steady_clock;

using Sums = std::array<std::int64_t, sizeof(play::MatchResult) / sizeof(std::int64_t)>;
constexpr auto kSums = static_cast<std::int64_t>(std::tuple_size_v<Sums>);

// Returns whether all ranks played to the end.
bool add_up(std::vector<play::MatchResult>& results, bool stopped, core::Deadline deadline,
            dist::DistContext& context) {
  at::Tensor sums = at::empty({static_cast<std::int64_t>(results.size()) * kSums + 1}, at::kLong);
  auto* s = sums.data_ptr<std::int64_t>();
  for (const play::MatchResult& r : results) {
    const auto numbers = std::bit_cast<Sums>(r);
    s = std::copy(numbers.begin(), numbers.end(), s);
  }
  *s = stopped ? 1 : 0;
  dist::add_up(sums, context, deadline);
  s = sums.data_ptr<std::int64_t>();
  for (play::MatchResult& r : results) {
    Sums numbers;
    std::copy_n(s, kSums, numbers.begin());
    r = std::bit_cast<play::MatchResult>(numbers);
    s += kSums;
  }
  return *s == 0;
}

}  // namespace

std::optional<std::vector<play::MatchResult>> judge_all(const std::vector<Pairing>& pairings,
                                                        play::MatchOptions options,
                                                        dist::DistContext& context,
                                                        const std::function<bool()>& stopping,
                                                        const Alive& alive) {
  const auto begin = Clock::now();
  std::vector<play::MatchResult> results;
  const dist::StopWatch stop = context.watch_for_stop(stopping);
  bool cut = false;
  options.stop = [&] { return cut = stop.stops(); };
  options.parts = context.size();
  const auto progress = std::exchange(options.progress, {});
  for (std::size_t i = 0; i < pairings.size(); ++i) {
    // Blocks seldom divide evenly among ranks; which rank has one more rotates.
    options.part = (context.rank() + static_cast<std::int64_t>(i)) % context.size();
    if (progress) {
      options.progress = [&, i](double share) {
        progress((static_cast<double>(i) + share) / static_cast<double>(pairings.size()));
      };
    }
    results.push_back(rollout::play_match(*pairings[i].a, *pairings[i].b, options));
  }
  bool whole = !cut;
  if (context.size() > 1) {
    // Slower ranks need more time, in proportion to their work.
    const auto played = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    if (alive) alive(played);
    whole = add_up(results, cut, core::Deadline::in(context.deadline().left() + played), context);
  }
  if (!whole) return std::nullopt;
  return results;
}

std::optional<play::MatchResult> judge(const rollout::Player& a, const rollout::Player& b,
                                       play::MatchOptions options, dist::DistContext& context,
                                       const std::function<bool()>& stopping, const Alive& alive) {
  const auto results = judge_all({{&a, &b}}, std::move(options), context, stopping, alive);
  if (!results) return std::nullopt;
  return results->front();
}

}  // namespace snake_ddp::train
