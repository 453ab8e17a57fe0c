#include "snake_ddp/train/counters.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <type_traits>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::train {
namespace {

template <class Value>
constexpr at::ScalarType kType = std::is_floating_point_v<Value> ? at::kDouble : at::kLong;

// The loop's own counters; all others are of periodic jobs.
template <class AnyCounters, class Visit>
void each(AnyCounters& c, Visit visit) {
  visit("steps", c.steps);
  visit("updates", c.updates);
  visit("updates_due", c.updates_due);
  visit("empty_at", c.empty_at);
  visit("best_win_rate", c.best_win_rate);
  visit("seconds", c.seconds);
}

template <class Value>
Value number(const at::Tensor& tensor, const std::string& name, const std::string& what) {
  if (tensor.defined() && tensor.numel() == 1 && tensor.scalar_type() == kType<Value>)
    return tensor.item<Value>();
  throw base::FileError(fmt::format("{} has no counter \"{}\"", what, name));
}

}  // namespace

nets::NamedTensors to_state(const Counters& counters) {
  nets::NamedTensors state;
  const auto put = [&](const std::string& name, auto value) {
    state.emplace_back(name, at::scalar_tensor(value, kType<decltype(value)>));
  };
  each(counters, put);
  for (const auto& [name, value] : counters.jobs) put(name, value);
  return state;
}

Counters counters_from(const nets::NamedTensors& state, const std::string& what) {
  std::map<std::string, at::Tensor> left(state.begin(), state.end());
  Counters counters;
  each(counters, [&](const char* name, auto& value) {
    value = number<std::remove_reference_t<decltype(value)>>(left[name], name, what);
    left.erase(name);
  });
  for (const auto& [name, tensor] : left) counters.jobs[name] = number<std::int64_t>(tensor, name, what);
  return counters;
}

}  // namespace snake_ddp::train
