// Matrix products at the shapes of small networks, where a general library reaches half of the machine's speed: one side
// is 26 to 36 features wide. On the CPU only; ATen's products are the oracle and serve every other device.
#pragma once

#include <cstdint>

namespace snake_ddp::kernels {

/// A matrix in memory: element (i, j) at data[i * row + j * column].
struct MatrixView {
  const float* data;
  std::int64_t row, column;
};

/// out[i][j] = sum over k of a(i, k) * b(k, j), for i < m, j < n, k < p; with `add`, added to out's contents.
/// Shapes  out is [m, n] with rows `out_row` apart. If b's columns are not adjacent (b.column != 1), it is copied, which pays
///         off from a few dozen rows on.
/// Threads the calling one. The result depends only on shapes and values.
/// Cost    2 m n p operations near the speed of the vector units; scratch of 64 KiB on the stack.
void multiply(std::int64_t m, std::int64_t n, std::int64_t p, MatrixView a, MatrixView b, float* out,
              std::int64_t out_row, bool add = false);

/// As `multiply`, with its bits, where many elements of a are 0 and b is finite: out = a * b.
/// Shapes  a [m, p] with rows `a_row` apart, b [p, n] contiguous.
/// Cost    2 n operations for each element of a that is not 0, at about half the speed of `multiply`, which it calls for
///         columns of a, some hundreds together, that have few zeros in the first rows; scratch on the stack, also for the
///         next one: 240 KiB with AVX-512, 384 KiB with AVX2, 576 KiB otherwise.
void multiply_sparse(std::int64_t m, std::int64_t n, std::int64_t p, const float* a, std::int64_t a_row,
                     const float* b, float* out, std::int64_t out_row);

/// Whether it pays off to skip the zeros of this matrix; its first rows decide.
bool has_many_zeros(std::int64_t rows, std::int64_t columns, const float* a, std::int64_t a_row);

/// Which row of b an element of a is multiplied by, and with which sign; below 0: none.
struct Placing {
  const std::int32_t* place;  // [p]
  const float* sign;          // [p]
  std::int64_t rows;          // of b
};

/// As multiply_sparse, but element k of a row goes to row place[k] of b [rows, n]. For an `a` with many zeros.
void multiply_sparse_placed(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                            std::int64_t a_row, const Placing& placing, const float* b, float* out,
                            std::int64_t out_row);

/// out = a^T * b, the gradient of a layer's weights; with `add`, added to out's contents.
/// Shapes  a [p, m] with rows `a_row` apart, b [p, n] and out [m, n] contiguous.
void multiply_sparse_transposed(std::int64_t m, std::int64_t n, std::int64_t p, const float* a,
                                std::int64_t a_row, const float* b, float* out, bool add = false);

}  // namespace snake_ddp::kernels
