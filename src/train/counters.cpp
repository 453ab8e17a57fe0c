#include "train/counters.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <set>
#include <type_traits>

namespace snake_ddp::train {
namespace {

template <class Value>
constexpr at::ScalarType kType = std::is_floating_point_v<Value> ? at::kDouble : at::kLong;

enum class Whose { kAll, kMain };  // equal on all ranks; rank 0's, which alone uses it

// The loop's own counters; all others are of periodic jobs.
template <class AnyCounters, class Visit>
void each(AnyCounters& c, Visit visit) {
  visit("steps", c.steps, Whose::kAll);                  // all ranks take a step, then learn together
  visit("updates", c.updates, Whose::kAll);              // follow from steps, not from games
  visit("updates_due", c.updates_due, Whose::kAll);      // likewise
  visit("empty_at", c.empty_at, Whose::kAll);            // a step; after a restart all ranks agree on it
  visit("board_steps", c.board_steps, Whose::kAll);      // of all ranks together
  visit("best_win_rate", c.best_win_rate, Whose::kAll);  // of the sum of all ranks' games
  visit("seconds", c.seconds, Whose::kMain);             // its clock decides about --max_minutes
}

// Jobs go by updates, or by the episode that rank 0 votes with. Only the weights' file is rank 0's own business.
Whose whose(const std::string& job) { return job == "saved" ? Whose::kMain : Whose::kAll; }

}  // namespace

nets::NamedTensors to_state(const Counters& counters) {
  nets::NamedTensors state;
  const auto put = [&](const std::string& name, auto value, Whose) {
    state.emplace_back(name, at::scalar_tensor(value, kType<decltype(value)>));
  };
  each(counters, put);
  for (const auto& [name, value] : counters.jobs) put(name, value, whose(name));
  return state;
}

std::string equal_text(const Counters& counters) {
  std::string text;
  const auto add = [&](const std::string& name, auto value, Whose whose) {
    if (whose == Whose::kAll) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  };
  each(counters, add);
  for (const auto& [name, value] : counters.jobs) add(name, value, whose(name));
  return text;
}

Counters counters_from(const nets::NamedTensors& state, const std::string& what) {
  const nets::StateReader there(state, what);
  Counters counters;
  std::set<std::string> own;
  each(counters, [&](const std::string& name, auto& value, Whose) {
    value = there.number<std::remove_reference_t<decltype(value)>>(name);
    own.insert(name);
  });
  for (const auto& [name, tensor] : state)
    if (!own.contains(name)) counters.jobs[name] = there.number<std::int64_t>(name);
  return counters;
}

}  // namespace snake_ddp::train
