#include "snake_ddp/train/counters.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::train {
namespace {

template <class Value>
constexpr at::ScalarType kType = std::is_floating_point_v<Value> ? at::kDouble : at::kLong;

// The one list of counters; a new one is one line here.
template <class AnyCounters, class Visit>
void each(AnyCounters& p, Visit visit) {
  visit("steps", p.steps);
  visit("updates", p.updates);
  visit("updates_due", p.updates_due);
  visit("empty_at", p.empty_at);
  visit("evaluations", p.evaluations);
  visit("checks", p.checks);
  visit("checkpoints", p.checkpoints);
  visit("judgements", p.judgements);
  visit("evaluation_due", p.evaluation_due);
  visit("judgement_due", p.judgement_due);
  visit("best_win_rate", p.best_win_rate);
  visit("saved", p.saved);
  visit("seconds", p.seconds);
}

// Checkpoints of version 1.0.0 have none of these.
bool is_new(std::string_view name) { return name == "evaluation_due" || name == "judgement_due"; }

}  // namespace

nets::NamedTensors to_state(const Counters& counters) {
  nets::NamedTensors state;
  each(counters, [&](const char* name, auto value) {
    state.emplace_back(name, at::scalar_tensor(value, kType<decltype(value)>));
  });
  return state;
}

Counters counters_from(const nets::NamedTensors& state, const std::string& what) {
  Counters counters;
  each(counters, [&](const char* name, auto& value) {
    const auto found =
        std::find_if(state.begin(), state.end(), [&](const auto& item) { return item.first == name; });
    if (found == state.end() && is_new(name)) return;
    using Value = std::remove_reference_t<decltype(value)>;
    if (found == state.end() || found->second.numel() != 1 || found->second.scalar_type() != kType<Value>)
      throw base::FileError(fmt::format("{} has no counter \"{}\"", what, name));
    value = found->second.template item<Value>();
  });
  return counters;
}

}  // namespace snake_ddp::train
