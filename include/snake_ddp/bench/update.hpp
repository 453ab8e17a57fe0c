// How fast a learner's update is on this machine.
#pragma once

#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// Two rows for each batch size, on one thread. ALGO_update: an update from random transitions, which,
/// unlike real ones, have no zeros; `limit` is the time of its matrix products alone. matrix_products: the
/// time of these products; `limit` is what LibTorch's library takes for them.
/// The learner and its sizes come from the configuration file, or without one from the reference; `algo`
/// overrides the file's learner. Without `batch_sizes`, the settings' batch size is used.
/// Throws   as records::read_file and config::set_from_json_text;
///          UsageError for settings that do not go together.
std::vector<Row> measure_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                const std::string& config_file, const std::string& algo);

}  // namespace snake_ddp::bench
