// The tokenizer's passes on the CPU, a few graphs at a time, so that one step's results are still in cache for the next.
// tokenizer.hpp does the same with the library's operators, on any device, and is the oracle.
// Rows are those of present nodes only: a missing node is 0 in every layer and changes nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "snake_ddp/nets/tokenizer.hpp"

namespace snake_ddp::nets {

/// Whether the functions below apply: parameters in main memory, and few enough nodes for a word of bits.
bool has_tokenizer_rows(const TokenizerShape& shape, at::Device device);

/// nearest_codes of encode_graphs. Nodes must be in whole cells, and present 0 or 1.
/// Shapes  graphs [N, nodes, features] float32; returns [N, tokens] int64.
/// Threads at::get_num_threads(); the result does not depend on their number.
at::Tensor tokens_by_rows(const TokenizerShape& shape, const Weights& weights, const at::Tensor& graphs);

/// For each graph, [N]: what TokenizerLoss has; 0 for graphs of weight 0, which are not read.
struct TokenizerErrors {
  at::Tensor reconstruction, distance;  // `distance` is both `codebook` and `commitment`
  at::Tensor tokens;                    // [N, tokens]
};

/// Shapes  graph_weights [N] float32. With `gradient`, adds to it the gradient of the sum over graphs of
///         graph_weight * (reconstruction + codebook + commitment_weight * commitment).
/// Threads at::get_num_threads(); the gradient's last bits depend on their number.
TokenizerErrors tokenizer_errors(const TokenizerShape& shape, const FlatParameters& parameters,
                                 const at::Tensor& graphs, const at::Tensor& graph_weights,
                                 double commitment_weight, FlatParameters* gradient);

}  // namespace snake_ddp::nets
