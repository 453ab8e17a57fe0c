#include "snake_ddp/train/counters.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::train {
namespace {

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
  visit("best_win_rate", p.best_win_rate);
  visit("saved", p.saved);
  visit("seconds", p.seconds);
}

}  // namespace

nets::NamedTensors to_state(const Counters& counters) {
  nets::NamedTensors state;
  each(counters, [&](const char* name, auto value) {
    state.emplace_back(
        name, at::scalar_tensor(value, std::is_floating_point_v<decltype(value)> ? at::kDouble : at::kLong));
  });
  return state;
}

Counters counters_from(const nets::NamedTensors& state, const std::string& what) {
  Counters counters;
  each(counters, [&](const char* name, auto& value) {
    const auto found =
        std::find_if(state.begin(), state.end(), [&](const auto& item) { return item.first == name; });
    if (found == state.end() || found->second.numel() != 1)
      throw base::FileError(fmt::format("{} has no counter \"{}\"", what, name));
    value = found->second.template item<std::remove_reference_t<decltype(value)>>();
  });
  return counters;
}

}  // namespace snake_ddp::train
