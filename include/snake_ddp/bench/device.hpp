// Benches of what runs on a GPU. On the CPU they run the same work items in a loop, which shows that they work, not how
// fast the CPU could be.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// For each number of boards: steps with random moves, without and with observations; then whole steps, as training plays them,
/// recorded as a CUDA graph (on a GPU): DDPG with 30 features against level 2, DQN with the view against territory. Limit:
/// reading and writing the same bytes within the device's memory.
std::vector<Row> measure_device_game(double seconds, const std::vector<std::int64_t>& board_counts,
                                     at::Device device);

/// For each batch size: an update recorded as a CUDA graph (on a GPU), compared with its matrix products
/// alone, recorded too; and the same update without recording, compared with the recorded one.
/// The learner and its sizes come from the configuration file, or without one from the reference; `algo` and
/// the precision `products` override the file's. Without `batch_sizes`, the settings' batch size is used.
/// Throws   as records::read_file and config::set_from_json_text;
///          UsageError for settings that do not go together, and for learners that do not record.
std::vector<Row> measure_device_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                       at::Device device, const std::string& config_file,
                                       const std::string& algo, const std::string& products);

/// The device of --device cuda, and the CPU of --device pieces.
/// Throws  UsageError where there is no GPU, or no kernels for it.
at::Device device_named(const std::string& name);

}  // namespace snake_ddp::bench
