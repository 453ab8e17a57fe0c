#include "snake_ddp/agents/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "snake_ddp/base/random.hpp"

namespace snake_ddp::agents {
namespace {

constexpr int kMost = 100'000;  // scores stay far from the ends of an int

}  // namespace

std::optional<territory::Weights> try_weights(std::string_view text) {
  WeightList list;
  const char *at = text.data(), *const end = at + text.size();
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (k > 0 && (at == end || *at++ != ',')) return {};
    const auto [next, error] = std::from_chars(at, end, list[k]);
    if (error != std::errc{} || list[k] < -kMost || list[k] > kMost) return {};
    at = next;
  }
  if (at != end) return {};
  return std::bit_cast<territory::Weights>(list);
}

std::string to_string(const territory::Weights& weights) {
  return fmt::format("{}", fmt::join(std::bit_cast<WeightList>(weights), ","));
}

territory::Weights random_weights(std::uint64_t seed, std::uint64_t number) {
  if (number == 0) return {};
  auto list = std::bit_cast<WeightList>(territory::Weights{});
  base::RandomStream random(seed, number, base::Purpose::kInit);
  for (int& weight : list)
    weight = static_cast<int>(std::lround(10.0 * weight * std::exp2(4.0 * random.unit() - 2.0)));
  return std::bit_cast<territory::Weights>(list);
}

}  // namespace snake_ddp::agents
