// What `bench` measures; each bench has its own source. Those that run jobs throw as run_jobs, those that read a configuration
// file as run_settings (jobs.hpp).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/world.hpp"

namespace snake_ddp::bench {

/// One line of what `bench` prints. `limit` is a bound to compare the value with, `ratio` how the value compares with it.
struct Row {
  std::string name;
  double value;
  std::string unit;
  double limit;
  double ratio;
};

/// How fast the game, the observations and the scripted opponents are on this machine. Each runs on the calling thread
/// for about `seconds`.
std::vector<Row> measure_game(double seconds);
std::vector<Row> measure_encode(double seconds);
std::vector<Row> measure_opponents(double seconds);

/// How fast a team searches on one core.
/// search_evaluations: team evaluations (a team's view and its three rows through a network of the champion's shape) per
/// second; `limit` is what encoding and the products alone would allow, each measured by itself on the same boards. Then team
/// moves per second by search, `limit` being what their evaluations alone would allow.
/// `products` bf16: in bfloat16; the first limit remains that of float32.
/// Throws   UsageError without AMX.
std::vector<Row> measure_search(double seconds, const std::string& products);

/// How fast a learner's update is on this machine.
/// Two rows for each batch size, on one thread. ALGO_update: an update from random transitions, which,
/// unlike real ones, have no zeros; `limit` is the time of its matrix products alone. matrix_products: the
/// time of these products; `limit` is what LibTorch's library takes for them.
/// The learner and its sizes come from the configuration file, or without one from the reference; `algo`
/// overrides the file's learner, `products` its precision; the limit is that of float32. Without `batch_sizes`, the settings' batch size is used.
/// Throws   UsageError for settings that do not go together.
std::vector<Row> measure_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                const std::string& config_file, const std::string& algo,
                                const std::string& products);

/// The device of --device cuda, and the CPU of --device pieces. On the CPU the two benches below run the same work items
/// as on a GPU in a loop, which shows that they work, not how fast the CPU could be.
/// Throws  UsageError where there is no GPU, or no kernels for it.
at::Device device_named(const std::string& name);

/// For each number of boards: steps with random moves, without and with observations; then whole steps, as training plays them,
/// recorded as a CUDA graph (on a GPU): DDPG with 30 features against level 2, DQN with the view against territory. Limit:
/// reading and writing the same bytes within the device's memory.
std::vector<Row> measure_device_game(double seconds, const std::vector<std::int64_t>& board_counts,
                                     at::Device device);

/// For each batch size: an update recorded as a CUDA graph (on a GPU), compared with its matrix products
/// alone, recorded too; and the same update without recording, compared with the recorded one.
/// Settings as for measure_update; `products` overrides the file's precision.
/// Throws   UsageError also for learners that do not record.
std::vector<Row> measure_device_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                       at::Device device, const std::string& config_file,
                                       const std::string& algo, const std::string& products);

/// What averaging gradients costs among ranks on this machine.
/// Through shared memory and through Gloo: the calls of one update, compared with one plain Gloo all-reduce
/// of the same size in the same processes; then single calls of 1 kB to 10 MB, each compared with a call of
/// Gloo. Last, how many calls an update makes, compared with its optimizer steps.
std::vector<Row> measure_allreduce(double seconds, int rounds, int ranks, const std::string& config_file);

/// How fast whole training runs are: real ones, with their files, in a folder that is removed afterwards.
/// train_one_rank: a run's time per update (play, store, sample, learn, log), compared with the sum of its parts alone,
/// measured in turn in the same process; train_PART: of this, each part. Then steps and updates of a run of `ranks` ranks on as many
/// cores, summed over the ranks, compared with those of one rank on one core; and those of as many
/// independent runs at once, which is the most that the machine can do. One thread per rank. Each round
/// measures all of them, beside `busy` processes that each keep a core busy; rows are medians.
/// Throws      UsageError for more ranks than cores.
std::vector<Row> measure_train(double seconds, int rounds, int ranks, int busy,
                               const std::string& config_file);

/// The jobs of these benches (JobAction): a rank of the allreduce bench; a run of some seconds; and one with its parts, in turn.
nlohmann::json allreduce_job(const nlohmann::json& settings, const dist::World& world);
nlohmann::json run_job(const nlohmann::json& settings, const dist::World& world);
nlohmann::json everything_job(const nlohmann::json& settings, const dist::World& world);

}  // namespace snake_ddp::bench
