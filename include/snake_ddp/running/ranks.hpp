// The ranks of a training run: joined and watched, with the same settings, and asked for their votes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/watchdog.hpp"
#include "snake_ddp/dist/world.hpp"

namespace snake_ddp::running {

std::chrono::milliseconds seconds_to_ms(double seconds);

struct RanksOptions {
  std::string backend, device;
  bool shared_memory = true;
  double join_timeout_s = 300, timeout_s = 600;
  std::string build;                                             // ranks of another build are refused
  std::chrono::milliseconds patience = std::chrono::minutes(1);  // of the watchdog, beyond timeout_s
};

/// This rank among the others, and the watchdog that ends it when it makes no progress. Both heed stop_requested().
struct Ranks {
  Ranks(const dist::World& world, const RanksOptions& options);

  dist::DistContext context;
  dist::Watchdog watchdog;
};

/// Collective.
/// Throws      DistError that names the settings in which ranks differ from rank 0.
void check_settings(const nlohmann::ordered_json& settings, dist::DistContext& context);

/// Replaces `sum`, a tensor in main memory, by its sum over all ranks.
/// Collective.
void add_up(at::Tensor& sum, dist::DistContext& context, base::Deadline deadline);

/// The sum of all ranks' ballots: what they agree on. A ballot is a struct of 64-bit counts.
/// Collective.
template <class Ballot>
Ballot vote(Ballot ballot, dist::DistContext& context) {
  constexpr std::size_t kCounts = sizeof(Ballot) / sizeof(std::int64_t);
  static_assert(std::is_trivially_copyable_v<Ballot> && sizeof(Ballot) == kCounts * sizeof(std::int64_t));
  if (context.size() == 1) return ballot;
  at::Tensor sum = at::empty({static_cast<std::int64_t>(kCounts)}, at::kLong);
  std::memcpy(sum.data_ptr(), &ballot, sizeof ballot);
  add_up(sum, context, context.deadline());
  std::memcpy(&ballot, sum.data_ptr(), sizeof ballot);
  return ballot;
}

/// Ends a run whose `loss` is no longer finite on `ranks` ranks, as a vote found; `remedy` names the flags to lower.
/// Throws  base::Error (kExitBug) unless `ranks` is 0: with the same message on every rank.
void check_divergence(std::int64_t ranks, std::string_view loss, std::int64_t updates,
                      std::string_view remedy);

/// Threads of LibTorch's matrix products: `wanted`, or this rank's share of the cores where that is 0.
int threads(std::int64_t wanted, const dist::DistContext& context);

/// `rate` as --lr_scaling has it grow with the number of ranks: none, linear or sqrt.
double scaled_rate(double rate, std::string_view scaling, int ranks);

}  // namespace snake_ddp::running
