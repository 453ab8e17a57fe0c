// Measurements of what runs on a GPU. On the CPU they measure the same pieces of work in a loop, which shows that they
// run, not how fast anything could be there.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// Steps of so many boards with random moves, without and with observations; limit: copying the same bytes within the
/// device's memory.
std::vector<Row> measure_device_game(double seconds, std::int64_t boards, at::Device device);

/// One DDPG update, recorded as a CUDA graph (on a GPU) and queued as it is; limit: its matrix products alone.
std::vector<Row> measure_device_update(double seconds, const std::vector<std::int64_t>& batch_sizes,
                                       at::Device device);

/// The device of --device cuda, and the CPU of --device pieces.
/// Throws  UsageError where there is no GPU, or no kernels for it.
at::Device device_named(const std::string& name);

}  // namespace snake_ddp::bench
