// Attention among the few rows of one sample, for many samples of different sizes: their products are too small for a general
// routine. On the CPU only.
// Follows  Vaswani et al., "Attention is all you need", arXiv:1706.03762.
#pragma once

#include <cstdint>

namespace snake_ddp::kernels {

/// A sample's rows: its queries, and its keys.
struct AttentionSpan {
  std::int64_t query, queries;  // the first and their number
  std::int64_t key, keys;
  std::int64_t odds;  // where its attention weights begin: [heads, queries, keys]
};

/// mixed = softmax(query * key^T / sqrt(width / heads)) * value, for each head's share of the columns.
/// Shapes  query, mixed [queries, width], key_value [keys, 2 width], key first; odds as in the span. Without keys the
///         result is 0.
/// Threads the calling one. The result depends only on shapes and values.
void attend(const AttentionSpan& span, std::int64_t heads, std::int64_t width, const float* query,
            const float* key_value, float* odds, float* mixed);

/// The gradients of a scalar loss. Overwrites d_query and d_key_value; no other span may share d_key_value.
void attend_backward(const AttentionSpan& span, std::int64_t heads, std::int64_t width, const float* query,
                     const float* key_value, const float* odds, const float* d_mixed, float* d_query,
                     float* d_key_value);

}  // namespace snake_ddp::kernels
