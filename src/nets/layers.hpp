// Parts of layers, by the library's operators on any device, or by our own kernels in main memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "nets/dense.hpp"

namespace snake_ddp::nets {

/// out = left * right, or out += left * right.
/// Shapes  left [m, p], right [p, n] with adjacent columns, out [m, n] likewise.
/// Threads ATen's share the rows of our own products; each element is the same sum on whichever thread.
void product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right,
             bool add = false);

/// out = left * right, the same bits as `product`, where many elements of left are 0: our own products skip them.
/// Shapes  as above; left may be a transposed view, and only then may `add` be set; out and right are contiguous.
/// Threads the calling one.
void sparse_product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                    bool add = false);

/// `weight` transposed, as the right factor of a product: a view for the library, a copy in `scratch` for ours.
at::Tensor transposed(bool by_library, const at::Tensor& weight, at::Tensor& scratch);

/// The parameters of a layer norm, or their gradients, [width]; undefined where a layer has none.
struct Norm {
  at::Tensor gain, shift;
};

/// rows.out = max(norm(rows.z + bias), 0).
/// Shapes  rows.z [R, width], contiguous, overwritten; bias [width]. Without `keep` no backward pass can follow.
void norm_relu(bool by_library, const at::Tensor& bias, const Norm& norm, Activated& rows, bool keep = true);

/// `d` holds dL/d(rows.out) and is overwritten. Adds to d_bias and d_norm, if they are defined.
/// Returns dL/dz.
at::Tensor norm_relu_back(bool by_library, const Norm& norm, const Activated& rows, at::Tensor d,
                          at::Tensor d_bias, const Norm& d_norm);

/// sum += the sum of the rows.
void add_rows(const at::Tensor& rows, at::Tensor sum);

/// In place, for each row of 4.
void softmax(bool by_library, at::Tensor logits);

/// z = max(z + bias, 0) in place.
/// Shapes  z [R, width], contiguous; bias [width].
void bias_relu(bool by_library, at::Tensor z, const at::Tensor& bias);

/// out = hidden * weight^T + bias, for a handful of outputs.
/// Shapes  hidden [R, width], weight [outputs, width], bias [outputs], out [R, outputs]; all contiguous.
void few_outputs(bool by_library, const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                 at::Tensor out);

/// The gradients of its arguments, from dL/d(out); all overwritten.
void few_outputs_back(bool by_library, const at::Tensor& hidden, const at::Tensor& weight,
                      const at::Tensor& d_out, at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias);

}  // namespace snake_ddp::nets
