// The parts of a layer after its matrix product, in one sweep over each row: bias, layer norm, ReLU, and a last layer with few
// outputs; with their backward passes. On the CPU only; ATen's operators are the oracle and serve every other device.
// Follows  Ba, Kiros and Hinton, "Layer normalization", arXiv:1607.06450.
#pragma once

#include <cstdint>

namespace snake_ddp::kernels {

inline constexpr double kNormEpsilon = 1e-5;

/// out = max(gain * (z + bias - mean) / sqrt(variance + kNormEpsilon) + shift, 0), mean and variance over each row.
/// Shapes  z, out [rows, width], contiguous; bias, gain, shift [width]; inverse_deviation [rows]. z is overwritten with
///         its normalised form; the backward pass reads that, inverse_deviation and out. `out` may be z: then no
///         backward pass can follow.
/// Halves  if `halved`, z is the result of multiply_halves or multiply_units, and exchange_halves is applied to each row
///         first, while it is in the first-level cache; `sums` [rows, width], if not null, gets exchange_halves of `out`,
///         and may be `out`.
/// Threads the calling one. The result depends only on shapes and values.
void norm_relu(std::int64_t rows, std::int64_t width, const float* bias, const float* gain,
               const float* shift, float* z, float* inverse_deviation, float* out, bool halved = false,
               float* sums = nullptr);

/// Whether a backward pass exchanges the halves of each row of `d` before its work and after it.
struct Exchange {
  bool before = false, after = false;
};

/// The gradients of a scalar loss: `d` holds dL/d(out) and is overwritten by dL/dz; those of bias, gain and shift are added
/// to d_bias, d_gain and d_shift.
/// Shapes  as above; `normal` is z after norm_relu.
void norm_relu_backward(std::int64_t rows, std::int64_t width, const float* gain, const float* normal,
                        const float* inverse_deviation, const float* out, float* d, float* d_bias,
                        float* d_gain, float* d_shift, Exchange exchange = {});

/// ReLU without the norm: out = max(z + bias, 0) in place of z. `halved` and `sums` as above.
void bias_relu(std::int64_t rows, std::int64_t width, const float* bias, float* z, bool halved = false,
               float* sums = nullptr);

/// `d` holds dL/d(out) and is overwritten by dL/dz, whose rows are added to d_bias.
void bias_relu_backward(std::int64_t rows, std::int64_t width, const float* out, float* d, float* d_bias,
                        Exchange exchange = {});

/// out = hidden * weight^T + bias, for a handful of outputs.
/// Shapes  hidden [rows, width], weight [outputs, width], bias [outputs], out [rows, outputs]; all contiguous.
void few_outputs(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                 const float* weight, const float* bias, float* out);

/// d_hidden = d_out * weight; d_out^T * hidden is added to d_weight, and d_out's rows to d_bias.
void few_outputs_backward(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                          const float* weight, const float* d_out, float* d_hidden, float* d_weight,
                          float* d_bias);

/// In place on [count] logits, four by four.
void softmax_of_four(float* values, std::int64_t count);

}  // namespace snake_ddp::kernels
