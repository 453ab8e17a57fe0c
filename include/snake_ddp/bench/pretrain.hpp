// How fast pretraining is on this machine: its stages, its loader, and the reading of tokens.
#pragma once

#include <vector>

#include "snake_ddp/bench/row.hpp"

namespace snake_ddp::bench {

/// All at the default sizes, from games that the bench plays itself, in a folder that is removed afterwards.
/// pretrain_STAGE: a training step (forward, backward, Adam) on one thread; `limit` is its matrix products alone.
/// pretrain_loader_N_workers: boards that the loader delivers; `limit` is what the faster stage takes.
/// read_tokens: an agent's view, of radius 4, through the frozen networks, on one thread; `limit` as for the stages.
/// Throws   FileError.
std::vector<Row> measure_pretrain(double seconds);

}  // namespace snake_ddp::bench
