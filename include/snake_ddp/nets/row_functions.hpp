// Functions of matrices in main memory that take part in automatic differentiation and compute with our own products.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "snake_ddp/kernels/attention.hpp"
#include "snake_ddp/nets/leaves.hpp"

namespace snake_ddp::nets {

/// x * weight^T + bias, as at::linear.
/// Shapes  x [rows, in], weight [out, in], bias [out]; returns [rows, out]. All float32, x in whole rows.
/// Owner   the gradient of a weight that is a leaf with a gradient, which the backward pass adds to.
/// Threads at::get_num_threads(); the result does not depend on their number.
at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// kernels::attend of each span, whose queries and keys no other span has.
/// Shapes  query [queries, width], key_value [keys, 2 width]; returns [queries, width].
/// Threads as above.
at::Tensor attend_rows(const at::Tensor& query, const at::Tensor& key_value, std::int64_t heads,
                       const std::vector<kernels::AttentionSpan>& spans);

/// `value`, a scalar computed without a graph, as the root of one: its backward pass adds the gradient with respect to
/// the leaves, which is already known. Owner: the caller must not change `gradient` before that pass.
at::Tensor with_gradient(const at::Tensor& value, const Weights& leaves, const FlatParameters& gradient);

}  // namespace snake_ddp::nets
