#include "snake_ddp/game/curriculum.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::game {
namespace {

// "4" of "level4"; the others have no number.
std::string_view short_name(const OpponentEntry& entry) {
  constexpr std::string_view kLevel = "level";
  return entry.name.starts_with(kLevel) ? entry.name.substr(kLevel.size()) : entry.name;
}

}  // namespace

std::vector<std::string> fixed_levels() {
  std::vector<std::string> levels;
  for (const OpponentEntry& entry : kOpponents) levels.emplace_back(short_name(entry));
  return levels;
}

Curriculum parse_curriculum(const std::string& text) {
  using Kind = Curriculum::Kind;
  if (text == "curriculum") return {Kind::kCurriculum};
  if (text == "linear") return {Kind::kLinear};
  if (text == "exponential") return {Kind::kExponential};
  constexpr std::string_view kFixed = "fixed:";
  if (text.starts_with(kFixed)) {
    const std::string level = text.substr(kFixed.size());
    for (const OpponentEntry& entry : kOpponents)
      if (level == short_name(entry)) return {Kind::kFixed, entry.opponent};
  }
  throw core::UsageError(fmt::format(
      "\"{}\" is not an opponent schedule: use curriculum, linear, exponential, or fixed:LEVEL with "
      "one of these levels: {}",
      text, fmt::join(fixed_levels(), ", ")));
}

int difficulty_at(const Curriculum& curriculum, std::int64_t episode, std::int64_t max_episodes) {
  SD_CHECK(episode >= 1 && max_episodes >= 1, fmt::format("episode {} of {}", episode, max_episodes));
  // Double arithmetic, in the reference's order: its results at the boundaries are part of the behaviour.
  const double progress = static_cast<double>(episode) / static_cast<double>(max_episodes);
  switch (curriculum.kind) {
    case Curriculum::Kind::kLinear:
      return static_cast<int>(std::min(4.0, std::floor(4.0 * progress)));
    case Curriculum::Kind::kExponential:
      return static_cast<int>(std::min(4.0, std::floor(4.0 * std::pow(progress, 1.5))));
    case Curriculum::Kind::kCurriculum:
      return (progress >= 0.10) + (progress >= 0.30) + (progress >= 0.60) + (progress >= 0.85);
    case Curriculum::Kind::kFixed:
      break;
  }
  return static_cast<int>(curriculum.fixed);
}

Opponent opponent_at(const Curriculum& curriculum, std::int64_t episode, std::int64_t max_episodes,
                     bool evasion_enabled, std::int64_t evasion_start_episode) {
  if (evasion_enabled && episode >= evasion_start_episode) return Opponent::kEvasion;
  return static_cast<Opponent>(difficulty_at(curriculum, episode, max_episodes));
}

namespace {

// Adds the changes after game `low`, up to `high`, in order.
void add_changes(const std::function<Opponent(std::int64_t)>& at, std::int64_t low, std::int64_t high,
                 OpponentPlan& plan) {
  if (at(low) == at(high)) return;
  if (high == low + 1) {
    SD_CHECK(plan.count < OpponentPlan::kMost, "each opponent's games must be consecutive episodes");
    plan.first[plan.count] = high;
    plan.opponent[plan.count++] = at(high);
    return;
  }
  const std::int64_t middle = low + (high - low) / 2;
  add_changes(at, low, middle, plan);
  add_changes(at, middle, high, plan);
}

}  // namespace

OpponentPlan plan_of_schedule(const std::function<Opponent(std::int64_t)>& opponent_at, std::int64_t last) {
  SD_CHECK(last >= 1, "a schedule needs a game or more, its last one is " + std::to_string(last));
  OpponentPlan plan;
  plan.first[0] = 1;
  plan.opponent[0] = opponent_at(1);
  plan.count = 1;
  add_changes(opponent_at, 1, last, plan);
  return plan;
}

}  // namespace snake_ddp::game
