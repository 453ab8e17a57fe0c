#include "dist/ranks.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "dist/error_file.hpp"
#include "dist/signals.hpp"
#include "io/log_file.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {

std::chrono::milliseconds seconds_to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

Ranks::Ranks(const World& world, const RanksOptions& o)
    : context(world, {o.backend, o.device, seconds_to_ms(o.join_timeout_s), seconds_to_ms(o.timeout_s),
                      o.build, stop_requested}),
      watchdog(context.rank(), {seconds_to_ms(o.timeout_s) + o.patience, std::chrono::seconds(25)},
               stop_requested) {}

void log_the_end(const std::string& path) {
  core::also_tell([path](std::string_view line) { io::LogFile(path).line(line); });
  keep_last_words(path);
}

void check_settings(const nlohmann::ordered_json& settings, DistContext& context) {
  const auto main =
      nlohmann::ordered_json::parse(context.broadcast_text(settings.dump(), context.deadline()));
  std::vector<std::string> differences;
  for (const auto& [name, value] : settings.items()) {
    const auto there = main.find(name);
    if (there == main.end() || *there != value)
      differences.push_back(fmt::format("--{} {} (rank 0: {})", name, value.dump(),
                                        there == main.end() ? "no such setting" : there->dump()));
  }
  context.check_same("the configuration",
                     differences.empty() ? "that of rank 0" : fmt::format("{}", fmt::join(differences, ", ")),
                     context.deadline());
}

void add_up(at::Tensor& sum, DistContext& context, core::Deadline deadline) {
  sum = sum.to(
      at::kCPU);  // of a GPU's tensor NCCL would take the sum, with its own limit instead of the deadline
  context.all_reduce_sum(sum, deadline);
}

void add_up(std::vector<std::int64_t>& counts, DistContext& context) {
  at::Tensor sum = at::tensor(counts, at::kLong);
  add_up(sum, context, context.deadline());
  std::copy_n(sum.const_data_ptr<std::int64_t>(), counts.size(), counts.begin());
}

void check_divergence(std::int64_t ranks, std::string_view loss, std::int64_t updates,
                      std::string_view remedy) {
  if (ranks == 0) return;
  throw core::Error(core::kExitBug, fmt::format("{} is not finite after {}: training diverged; lower {}",
                                                loss, core::counted(updates, "update"), remedy));
}

std::string ranks_text(const DistContext& context) {
  std::vector<std::string> hosts;
  for (const std::string& host : context.hosts())
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  return fmt::format("{} on {}, {}{}",
                     core::counted(context.size(), context.device().is_cpu() ? "CPU rank" : "GPU rank"),
                     fmt::join(hosts, ", "), core::counted(at::get_num_threads(), "thread"),
                     context.size() == 1 ? "" : " each");
}

int threads(std::int64_t wanted, const DistContext& context) {
  const int cores = core::usable_cores(), most = std::max(64, 8 * cores);
  if (wanted > most)
    throw core::UsageError(fmt::format("--threads {}: more than {}; this process may use {}", wanted, most,
                                       core::counted(cores, "core")));
  return wanted > 0 ? static_cast<int>(wanted) : std::max(1, cores / context.local_size());
}

}  // namespace snake_ddp::dist
