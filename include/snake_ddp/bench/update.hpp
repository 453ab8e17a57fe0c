// How fast a learner's update is on this machine.
#pragma once

#include <string>
#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// Two rows for each batch size, on one thread. ALGO_update: an update of random transitions, which have no zeros as real ones
/// do; `limit` is the time of its matrix products alone. matrix_products: theirs, `limit` the time that LibTorch's library
/// takes for the same ones.
/// The learner and its sizes are those of the configuration file, of the reference without one; `algo` replaces the file's
/// learner. Without `batch_sizes` it is the batch size of these settings.
/// Throws   as config::set_from_file; UsageError for settings that do not go together.
std::vector<Row> measure_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                const std::string& config_file, const std::string& algo);

}  // namespace snake_ddp::bench
