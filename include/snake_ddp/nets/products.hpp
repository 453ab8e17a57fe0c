// Matrix products at the shapes of small networks, where a general library leaves half of the machine's speed: one side
// is 26 to 36 features wide. On the CPU only; ATen's products are the oracle and serve every other device.
#pragma once

#include <cstdint>

namespace snake_ddp::nets {

/// A matrix in memory: element (i, j) at data[i * row + j * column].
struct MatrixView {
  const float* data;
  std::int64_t row, column;
};

/// out[i][j] = sum over k of a(i, k) * b(k, j), for i < m, j < n, k < p.
/// Shapes  b's columns lie side by side (b.column == 1); out is [m, n] with rows `out_row` apart, overwritten.
/// Threads the calling one. The result depends on the shapes and values alone.
/// Cost    2 m n p operations near the speed of the vector units; scratch of 64 KiB on the stack.
void multiply(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
              std::int64_t out_row);

/// The last layer with the ReLU before it: hidden := max(hidden, 0), out = hidden * weight^T + bias.
/// Shapes  hidden [rows, width], weight [outputs, width], bias [outputs], out [rows, outputs]; all contiguous.
void relu_and_last_layer(std::int64_t rows, std::int64_t width, std::int64_t outputs, float* hidden,
                         const float* weight, const float* bias, float* out);

/// Its backward pass: d_hidden = (d_out * weight) where hidden > 0, else 0; d_weight = d_out^T * hidden and d_bias = the
/// sum of d_out's rows, both left alone where null.
/// Shapes  as above.
void last_layer_backward(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                         const float* weight, const float* d_out, float* d_hidden, float* d_weight,
                         float* d_bias);

}  // namespace snake_ddp::nets
