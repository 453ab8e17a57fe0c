// A DenseNet's passes on the CPU, a few dozen rows at a time: the rows stay in the first caches from layer to layer,
// nothing is allocated, and ReLU, layer norm and head are fused into the products. Nothing here needs LibTorch.
// ATen's passes in dense.hpp are the oracle and serve every other device.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "snake_ddp/nets/dense_shape.hpp"

namespace snake_ddp::nets {

/// Maximum rows per call: at 256 hidden units everything that a call touches fits into the second-level cache.
inline constexpr std::int64_t kChunkRows = 96;

/// Floats from the start of a cache line on, zero at first.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::int64_t count);
  [[nodiscard]] float* data() const { return floats_.get(); }

 private:
  struct Free {
    void operator()(float* floats) const { ::operator delete[](floats, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> floats_;
};

/// The parameters as the passes read them: the product of the first two layers as in `Folded`, and everything in rows
/// padded with zeros to whole vectors. Valid until the parameters change.
class DenseRows {
 public:
  explicit DenseRows(const DenseShape& shape);
  /// Cost  one [in + 1, hidden] x [hidden, hidden] product.
  void refresh(const DenseBlocks& parameters);

  [[nodiscard]] const DenseShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t width() const { return width_; }  // hidden units with the padding
  // [in + 1, width], [out, width], [out], and with layer norm [width] each. Owner: this.
  [[nodiscard]] const float* map() const { return map_; }
  [[nodiscard]] const float* last_weight() const { return last_weight_; }
  [[nodiscard]] const float* last_bias() const { return last_bias_; }
  [[nodiscard]] const float* norm_scale() const { return norm_; }
  [[nodiscard]] const float* norm_shift() const { return norm_ + width_; }

 private:
  DenseShape shape_;
  std::int64_t width_;
  AlignedFloats storage_;
  float *map_, *last_weight_, *last_bias_, *norm_;  // into storage_
};

/// What a forward pass leaves for its backward pass, and scratch for unfolding. One serves any network of the same
/// hidden size and up to `inputs` inputs.
struct RowScratch {
  RowScratch(std::int64_t hidden_size, std::int64_t inputs);
  std::int64_t
      stride;  // floats from row to row: not a power of two, which would crowd a few sets of the cache
  AlignedFloats storage;
  // Into storage: [kChunkRows, stride] each, [kChunkRows], and [padded hidden, inputs + 1] twice.
  float *hidden, *normalised, *d_hidden, *inverse_deviation, *transposed, *d_transposed;
};

/// Shapes  input [rows, in + 1], rows `input_row` floats apart, a constant 1 last; output [rows, out], after the head.
void forward(const DenseRows& net, std::int64_t rows, const float* input, std::int64_t input_row,
             RowScratch& scratch, float* output);

/// The same over any number of contiguous rows, for acting: no backward pass may follow.
void forward_all(const DenseRows& net, std::int64_t rows, const float* input, RowScratch& scratch,
                 float* output);

/// Adds to `sums` what these rows contribute to the gradients of a scalar loss.
/// Shapes  input and output as the forward pass had them, d_output [rows, out] = dL/d(output); scratch as it left it.
void backward(const DenseRows& net, std::int64_t rows, const float* input, std::int64_t input_row,
              const float* output, const float* d_output, RowScratch& scratch, const FoldedBlocks& sums);

/// The gradient with respect to all parameters, as `unfold` in dense.hpp has it.
/// Shapes  `folded` has the width of the rows' networks; `gradient` is overwritten.
/// Cost    two [in + 1, hidden] x [hidden, hidden] products.
void unfold(const DenseShape& shape, const DenseBlocks& parameters, const FoldedBlocks& folded,
            RowScratch& scratch, const DenseBlocks& gradient);

/// The gradient with respect to `count` inputs from `first` on; no parameter gradient is computed.
/// Shapes  `net` has no head and one output; d_output [rows]; d_input [rows, count].
void backward_input(const DenseRows& net, std::int64_t rows, const float* d_output, RowScratch& scratch,
                    std::int64_t first, std::int64_t count, float* d_input);

/// Values of all one-hot actions at once: column i is the output for [features, e_i].
/// Shapes  `net` has features + moves inputs, no head and one output; observation [rows, features + 1], the constant 1
///         last; moves is 4; values [rows, 4]. No backward pass may follow.
void forward_moves(const DenseRows& net, std::int64_t rows, const float* observation, std::int64_t moves,
                   RowScratch& scratch, float* values);

}  // namespace snake_ddp::nets
