// The ranks of a training run: joining, the watchdog, comparison of settings, and votes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dist/context.hpp"
#include "dist/watchdog.hpp"
#include "dist/world.hpp"

namespace snake_ddp::dist {

std::chrono::milliseconds seconds_to_ms(double seconds);

struct RanksOptions {
  std::string backend, device;
  double join_timeout_s = 300, timeout_s = 600;
  std::string build;                                             // ranks with another build are rejected
  std::chrono::milliseconds patience = std::chrono::minutes(1);  // of the watchdog, beyond timeout_s
};

/// This rank among the others, and the watchdog that ends it when it makes no progress. Both react to
/// stop_requested().
struct Ranks {
  Ranks(const World& world, const RanksOptions& options);

  DistContext context;
  Watchdog watchdog;
};

/// From here on this rank's log, a file that exists, gets the reason of its end, too: what tell_error prints, and signals that
/// end it at once.
void log_the_end(const std::string& path);

/// Collective.
/// Throws      DistError that names the settings in which ranks differ from rank 0.
void check_settings(const nlohmann::ordered_json& settings, DistContext& context);

/// Replaces `sum`, a tensor in main memory, by its sum over all ranks.
/// Collective.
void add_up(at::Tensor& sum, DistContext& context, core::Deadline deadline);

/// Sums numbers over all ranks, with the context's own deadline.
void add_up(std::vector<std::int64_t>& counts, DistContext& context);

/// The number of 64-bit counts in a struct that has nothing else.
template <class Counts>
constexpr std::int64_t number_of_counts() {
  static_assert(std::is_trivially_copyable_v<Counts> && sizeof(Counts) % sizeof(std::int64_t) == 0);
  return static_cast<std::int64_t>(sizeof(Counts) / sizeof(std::int64_t));
}

/// The sum of all ranks' votes: what they agree on. A vote is a struct of 64-bit counts. Another such struct,
/// what each rank reports about itself, is gathered into `all`, by rank.
/// Collective.
template <class Vote, class Own>
Vote vote(Vote of, const Own& own, std::vector<Own>& all, DistContext& context) {
  constexpr std::int64_t kVotes = number_of_counts<Vote>(), kOwn = number_of_counts<Own>();
  all.assign(static_cast<std::size_t>(context.size()), own);
  if (context.size() == 1) return of;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(kVotes + context.size() * kOwn));
  std::memcpy(counts.data(), &of, sizeof of);
  std::memcpy(counts.data() + kVotes + context.rank() * kOwn, &own, sizeof own);
  add_up(counts, context);
  std::memcpy(static_cast<void*>(&of), counts.data(), sizeof of);
  std::memcpy(static_cast<void*>(all.data()), counts.data() + kVotes, all.size() * sizeof own);
  return of;
}

template <class Vote>
Vote vote(Vote of, DistContext& context) {
  std::vector<std::int64_t> none;
  return vote(of, std::int64_t{0}, none, context);
}

/// Ends a run whose `loss` is no longer finite on `ranks` ranks, as a vote found; `remedy` names the flags to lower.
/// Throws  core::Error (kExitBug) unless `ranks` is 0: with the same message on every rank.
void check_divergence(std::int64_t ranks, std::string_view loss, std::int64_t updates,
                      std::string_view remedy);

/// "2 CPU ranks on nodeA, 1 thread each", for the first line of a log.
std::string ranks_text(const DistContext& context);

/// Threads of LibTorch's matrix products: `wanted`, or this rank's share of the cores if that is 0.
/// Throws  UsageError for far more threads than cores.
int threads(std::int64_t wanted, const DistContext& context);

}  // namespace snake_ddp::dist
