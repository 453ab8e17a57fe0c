#include "snake_ddp/agents/plan.hpp"

#include "snake_ddp/base/check.hpp"

namespace snake_ddp::agents {
namespace {

// Adds the changes after game `low`, up to `high`, in order.
void add_changes(const std::function<Opponent(std::int64_t)>& at, std::int64_t low, std::int64_t high,
                 OpponentPlan& plan) {
  if (at(low) == at(high)) return;
  if (high == low + 1) {
    SD_CHECK(plan.count < OpponentPlan::kMost, "an opponent's games are not consecutive");
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
  SD_CHECK(last >= 1, "a schedule without games");
  OpponentPlan plan;
  plan.first[0] = 1;
  plan.opponent[0] = opponent_at(1);
  plan.count = 1;
  add_changes(opponent_at, 1, last, plan);
  return plan;
}

}  // namespace snake_ddp::agents
