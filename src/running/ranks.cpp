#include "snake_ddp/running/ranks.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/host.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/dist/error_file.hpp"
#include "snake_ddp/records/log_file.hpp"
#include "snake_ddp/running/signals.hpp"

namespace snake_ddp::running {

std::chrono::milliseconds seconds_to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

Ranks::Ranks(const dist::World& world, const RanksOptions& o)
    : context(world, {o.backend, o.device, seconds_to_ms(o.join_timeout_s), seconds_to_ms(o.timeout_s),
                      o.build, stop_requested}),
      watchdog(context.rank(), {seconds_to_ms(o.timeout_s) + o.patience, std::chrono::seconds(25)},
               stop_requested) {}

void log_the_end(const std::string& path) {
  base::also_tell([path](std::string_view line) { records::LogFile(path).line(line); });
  dist::keep_last_words(path);
}

void check_settings(const nlohmann::ordered_json& settings, dist::DistContext& context) {
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

void add_up(at::Tensor& sum, dist::DistContext& context, base::Deadline deadline) {
  sum = sum.to(
      at::kCPU);  // of a GPU's tensor NCCL would take the sum, with its own limit instead of the deadline
  context.all_reduce_sum(sum, deadline);
}

void add_up(std::vector<std::int64_t>& counts, dist::DistContext& context) {
  at::Tensor sum = at::tensor(counts, at::kLong);
  add_up(sum, context, context.deadline());
  std::copy_n(sum.const_data_ptr<std::int64_t>(), counts.size(), counts.begin());
}

void check_divergence(std::int64_t ranks, std::string_view loss, std::int64_t updates,
                      std::string_view remedy) {
  if (ranks == 0) return;
  throw base::Error(base::kExitBug, fmt::format("{} is not finite after {}: training diverged; lower {}",
                                                loss, base::counted(updates, "update"), remedy));
}

std::string ranks_text(const dist::DistContext& context) {
  std::vector<std::string> hosts;
  for (const std::string& host : context.hosts())
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  return fmt::format("{} on {}, {}{}",
                     base::counted(context.size(), context.device().is_cpu() ? "CPU rank" : "GPU rank"),
                     fmt::join(hosts, ", "), base::counted(at::get_num_threads(), "thread"),
                     context.size() == 1 ? "" : " each");
}

int threads(std::int64_t wanted, const dist::DistContext& context) {
  const int cores = base::usable_cores(), most = std::max(64, 8 * cores);
  if (wanted > most)
    throw base::UsageError(fmt::format("--threads {}: more than {}; this process may use {}", wanted, most,
                                       base::counted(cores, "core")));
  return wanted > 0 ? static_cast<int>(wanted) : std::max(1, cores / context.local_size());
}

}  // namespace snake_ddp::running
