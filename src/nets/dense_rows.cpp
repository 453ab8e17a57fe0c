#include "snake_ddp/nets/dense_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/simd.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {
namespace {

using base::all_lanes;
using base::kLanes;
using base::load;
using base::store;
using base::Vector;
using base::Vector4;

constexpr std::int64_t kMostOutputs = 8;

std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Rows of `from` into the padded rows of `to`.
void copy_padded(const float* from, std::int64_t rows, std::int64_t columns, float* to, std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * columns, columns, to + r * to_row);
}

void copy_unpadded(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                   float* to) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_row, columns, to + r * columns);
}

void transpose(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t from_row, float* to,
               std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
  }
}

// So many rows go through the last layer and the norm before it together: the additions of one would wait for each other.
constexpr std::int64_t kGroup = 4;

// The mean of each row; their padding is zero.
template <int kRows>
Vector4 means(const float* rows, std::int64_t stride, std::int64_t hidden, std::int64_t width) {
  Vector sum[kGroup] = {};
  for (std::int64_t j = 0; j < width; j += kLanes) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) sum[i] += load(rows + i * stride + j);
  }
  return base::sums_of(sum[0], sum[1], sum[2], sum[3]) / static_cast<float>(hidden);
}

// 1 / deviation of each row, from the sums of squares of its centred elements, among which is its padding.
Vector4 inverse_deviations(const Vector (&squares)[kGroup], Vector4 mean, std::int64_t hidden,
                           std::int64_t width) {
  const Vector4 surplus = static_cast<float>(width - hidden) * mean * mean;  // the padding's share
  Vector4 inverse =
      (base::sums_of(squares[0], squares[1], squares[2], squares[3]) - surplus) / static_cast<float>(hidden) +
      static_cast<float>(kernels::kNormEpsilon);
  for (int i = 0; i < kGroup; ++i) inverse[i] = 1.0F / std::sqrt(inverse[i]);
  return inverse;
}

// (x - mean) / deviation of each row; their padding is zero. Returns 1 / deviation of each.
template <int kRows>
Vector4 normalise(float* rows, std::int64_t stride, std::int64_t hidden, std::int64_t width) {
  const Vector4 mean = means<kRows>(rows, stride, hidden, width);
  Vector squares[kGroup] = {};
  for (std::int64_t j = 0; j < width; j += kLanes) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const Vector centred = load(rows + i * stride + j) - all_lanes(mean[i]);
      squares[i] += centred * centred;
    }
  }
  const Vector4 inverse = inverse_deviations(squares, mean, hidden, width);
  for (std::int64_t j = 0; j < width; j += kLanes) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      float* x = rows + i * stride + j;
      store(x, (load(x) - all_lanes(mean[i])) * all_lanes(inverse[i]));
    }
  }
  return inverse;
}

// A group, or what is left of one.
void normalise_group(float* rows, std::int64_t count, std::int64_t stride, std::int64_t hidden,
                     std::int64_t width, float* inverse) {
  if (count == kGroup) {
    const Vector4 four = normalise<kGroup>(rows, stride, hidden, width);
    std::memcpy(inverse, &four, sizeof four);
    return;
  }
  for (std::int64_t r = 0; r < count; ++r)
    inverse[r] = normalise<1>(rows + r * stride, stride, hidden, width)[0];
}

// hidden := ReLU(before) [, which is scaled and shifted first], and its products with the last layer's rows, which are
// added to `sum`, by row.
template <int kRows, int kOutputs, bool kNorm>
[[gnu::always_inline]] inline void last_layer_of_rows(const DenseRows& net, const float* before,
                                                      std::int64_t stride, float* hidden,
                                                      Vector (&sum)[kRows * kOutputs]) {
  const std::int64_t width = net.width();
  const float *weight = net.last_weight(), *scale = net.norm_scale(), *shift = net.norm_shift();
  for (std::int64_t j = 0; j < width; j += kLanes) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      Vector h = load(before + i * stride + j);
      if constexpr (kNorm) h = h * load(scale + j) + load(shift + j);
      h = base::max(h, Vector{});
      store(hidden + i * stride + j, h);
      for (int o = 0; o < kOutputs; ++o) sum[i * kOutputs + o] += h * load(weight + o * width + j);
    }
  }
}

// Shapes  before and hidden [rows] `stride` apart, out [rows, kOutputs]; rows <= kGroup.
template <int kOutputs, bool kNorm>
void last_layer_group(const DenseRows& net, std::int64_t rows, const float* before, std::int64_t stride,
                      float* hidden, float* out) {
  if (kOutputs == 1 && rows == kGroup) {
    Vector sum[kGroup] = {};
    last_layer_of_rows<kGroup, 1, kNorm>(net, before, stride, hidden, sum);
    const Vector4 four = base::sums_of(sum[0], sum[1], sum[2], sum[3]) + net.last_bias()[0];
    std::memcpy(out, &four, sizeof four);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, out += kOutputs) {
    Vector sum[kOutputs] = {};
    last_layer_of_rows<1, kOutputs, kNorm>(net, before + r * stride, stride, hidden + r * stride, sum);
    if constexpr (kOutputs == 4) {
      const Vector4 four = base::sums_of(sum[0], sum[1], sum[2], sum[3]);
      for (int o = 0; o < 4; ++o) out[o] = four[o] + net.last_bias()[o];
    } else {
      for (int o = 0; o < kOutputs; ++o) out[o] = base::sum_of(sum[o]) + net.last_bias()[o];
    }
  }
}

// The values of four moves: of ReLU(row + added[move]), which is normalised, scaled and shifted first with kNorm.
// Shapes  row [width], added [kGroup] rows `stride` apart; row_mean and added_mean are their means.
template <bool kNorm>
void values_of_moves(const DenseRows& net, const float* row, float row_mean, const float* added,
                     Vector4 added_mean, std::int64_t stride, float* values) {
  const std::int64_t width = net.width();
  const float *weight = net.last_weight(), *scale = net.norm_scale(), *shift = net.norm_shift();
  const Vector4 mean = added_mean + row_mean;
  Vector4 inverse{};
  if constexpr (kNorm) {
    Vector squares[kGroup] = {};
    for (std::int64_t j = 0; j < width; j += kLanes) {
      const Vector own = load(row + j);
#pragma GCC unroll 4
      for (int i = 0; i < kGroup; ++i) {
        const Vector centred = (own + load(added + i * stride + j)) - all_lanes(mean[i]);
        squares[i] += centred * centred;
      }
    }
    inverse = inverse_deviations(squares, mean, net.shape().hidden, width);
  }
  Vector sum[kGroup] = {};
  for (std::int64_t j = 0; j < width; j += kLanes) {
    const Vector own = load(row + j);
#pragma GCC unroll 4
    for (int i = 0; i < kGroup; ++i) {
      Vector h = own + load(added + i * stride + j);
      if constexpr (kNorm)
        h = (h - all_lanes(mean[i])) * all_lanes(inverse[i]) * load(scale + j) + load(shift + j);
      sum[i] += base::max(h, Vector{}) * load(weight + j);
    }
  }
  const Vector4 four = base::sums_of(sum[0], sum[1], sum[2], sum[3]) + net.last_bias()[0];
  std::memcpy(values, &four, sizeof four);
}

using LastLayerGroup = void (*)(const DenseRows&, std::int64_t, const float*, std::int64_t, float*, float*);

// By number of outputs - 1.
template <bool kNorm, int... kOutputs>
constexpr std::array<LastLayerGroup, sizeof...(kOutputs)> last_layer_groups(
    std::integer_sequence<int, kOutputs...>) {
  return {last_layer_group<kOutputs + 1, kNorm>...};
}
constexpr auto kLastLayer = last_layer_groups<false>(std::make_integer_sequence<int, kMostOutputs>());
constexpr auto kLastLayerNorm = last_layer_groups<true>(std::make_integer_sequence<int, kMostOutputs>());

LastLayerGroup last_layer_of(const DenseShape& shape) {
  return (shape.layer_norm ? kLastLayerNorm : kLastLayer)[static_cast<std::size_t>(shape.out - 1)];
}

// In place on [count] logits, whole vectors of which are four rows of four.
void softmax_of_four(float* values, std::int64_t count) {
  static_assert(kLanes % 4 == 0);
  for (std::int64_t i = 0; i < count; i += 4) {
    float* v = values + i;
    const float most = std::max(std::max(v[0], v[1]), std::max(v[2], v[3]));
    for (int o = 0; o < 4; ++o) v[o] -= most;
  }
  std::array<float, kLanes> line{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(kLanes, count - i));
    std::memcpy(line.data(), values + i, n * sizeof(float));
    store(line.data(), base::exp_of(load(line.data())));
    std::memcpy(values + i, line.data(), n * sizeof(float));
  }
  for (std::int64_t i = 0; i < count; i += 4) {
    float* v = values + i;
    const float inverse = 1.0F / ((v[0] + v[2]) + (v[1] + v[3]));
    for (int o = 0; o < 4; ++o) v[o] *= inverse;
  }
}

void apply_head(const DenseShape& shape, std::int64_t rows, float* values) {
  switch (shape.head) {
    case Head::kIdentity:
      return;
    case Head::kSoftmax:
      SD_CHECK(shape.out == 4, "a softmax over four moves");
      return softmax_of_four(values, rows * shape.out);
    case Head::kTanh:
      for (std::int64_t i = 0; i < rows * shape.out; ++i) values[i] = std::tanh(values[i]);
      return;
  }
}

// dL/d(output) -> dL/d(logits).
void head_backward(const DenseShape& shape, std::int64_t rows, const float* output, const float* d_output,
                   float* d_logits) {
  const std::int64_t n = shape.out;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *y = output + r * n, *g = d_output + r * n;
    float* d = d_logits + r * n;
    float mean = 0;
    if (shape.head == Head::kSoftmax) {
      for (std::int64_t o = 0; o < n; ++o) mean += y[o] * g[o];
    }
    for (std::int64_t o = 0; o < n; ++o) {
      d[o] = shape.head == Head::kSoftmax ? y[o] * (g[o] - mean)
             : shape.head == Head::kTanh  ? g[o] * (1.0F - y[o] * y[o])
                                          : g[o];
    }
  }
}

// d_logits -> gradient at the ReLU's input, into scratch.d_hidden; with sums, also the gradients of the last layer
// and of the norm's scale and shift from these rows.
template <int kOutputs, bool kNorm, bool kSums>
void relu_backward(const DenseRows& net, std::int64_t rows, const float* d_logits, RowScratch& s,
                   const FoldedBlocks* sums) {
  const std::int64_t width = net.width();
  const float* weight = net.last_weight();
  const float *hidden = s.hidden, *normalised = s.normalised;
  float* d_hidden = s.d_hidden;
  float* d_weight = kSums ? sums->last_weight : nullptr;
  float* d_norm = kSums && kNorm ? sums->norm : nullptr;
  for (std::int64_t j = 0; j < width; j += kLanes) {
    Vector w[kOutputs], sum[kOutputs] = {}, scale_sum{}, shift_sum{};
    for (int o = 0; o < kOutputs; ++o) w[o] = load(weight + o * width + j);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* g = d_logits + r * kOutputs;
      const Vector h = load(hidden + r * s.stride + j);
      Vector d{};
      for (int o = 0; o < kOutputs; ++o) {
        d += g[o] * w[o];
        if constexpr (kSums) sum[o] += g[o] * h;
      }
      d = h > Vector{} ? d : Vector{};
      store(d_hidden + r * s.stride + j, d);
      if constexpr (kSums && kNorm) {
        scale_sum += d * load(normalised + r * s.stride + j);
        shift_sum += d;
      }
    }
    if constexpr (kSums) {
      for (int o = 0; o < kOutputs; ++o)
        store(d_weight + o * width + j, load(d_weight + o * width + j) + sum[o]);
    }
    if constexpr (kSums && kNorm) {
      store(d_norm + j, load(d_norm + j) + scale_sum);
      store(d_norm + width + j, load(d_norm + width + j) + shift_sum);
    }
  }
  if constexpr (kSums) {
    auto* d_bias = sums->last_bias;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int o = 0; o < kOutputs; ++o) d_bias[o] += d_logits[r * kOutputs + o];
    }
  }
}

using ReluBackward = void (*)(const DenseRows&, std::int64_t, const float*, RowScratch&, const FoldedBlocks*);

template <bool kNorm, int... kOutputs>
constexpr std::array<ReluBackward, sizeof...(kOutputs)> relu_backwards(
    std::integer_sequence<int, kOutputs...>) {
  return {relu_backward<kOutputs + 1, kNorm, true>...};
}
constexpr auto kReluBackward = relu_backwards<false>(std::make_integer_sequence<int, kMostOutputs>());
constexpr auto kReluBackwardNorm = relu_backwards<true>(std::make_integer_sequence<int, kMostOutputs>());

// Through scale, shift and normalisation: rows of d_hidden become gradients at the norm's input.
void norm_backward(const DenseRows& net, std::int64_t rows, RowScratch& s) {
  const std::int64_t width = net.width();
  const auto n = static_cast<float>(net.shape().hidden);
  const float* scale = net.norm_scale();
  for (std::int64_t r = 0; r < rows; ++r) {
    float* d = s.d_hidden + r * s.stride;
    const float* x = s.normalised + r * s.stride;
    Vector sum{}, with_x{};
    for (std::int64_t j = 0; j < width; j += kLanes) {
      const Vector scaled = load(d + j) * load(scale + j);
      store(d + j, scaled);
      sum += scaled;
      with_x += scaled * load(x + j);
    }
    const float mean = base::sum_of(sum) / n, slope = base::sum_of(with_x) / n;
    const float inverse = s.inverse_deviation[r];
    for (std::int64_t j = 0; j < width; j += kLanes) {
      store(d + j, all_lanes(inverse) * (load(d + j) - all_lanes(mean) - load(x + j) * all_lanes(slope)));
    }
  }
}

}  // namespace

Head head_from_name(const std::string& name) {
  if (name == "softmax") return Head::kSoftmax;
  if (name == "tanh") return Head::kTanh;
  throw base::UsageError("--output_activation " + name + ": not known; allowed: softmax, tanh");
}

AlignedFloats::AlignedFloats(std::int64_t count)
    : floats_(new (std::align_val_t{64}) float[static_cast<std::size_t>(count)]()) {}

DenseRows::DenseRows(const DenseShape& shape)
    : shape_(shape),
      width_(padded(shape.hidden)),
      storage_((shape.in + 1 + shape.out + 2) * width_ + padded(shape.out)) {
  SD_CHECK(shape.out >= 1 && shape.out <= kMostOutputs, "few outputs");
  map_ = storage_.data();
  last_weight_ = map_ + (shape.in + 1) * width_;
  norm_ = last_weight_ + shape.out * width_;
  last_bias_ = norm_ + 2 * width_;
}

void DenseRows::refresh(const DenseBlocks& p) {
  const std::int64_t hidden = shape_.hidden, in = shape_.in;
  kernels::multiply(in + 1, hidden, hidden, {p.prev, hidden, 1}, {p.post0_weight, hidden, 1}, map_, width_);
  const float* bias = p.post0_bias;
  for (std::int64_t j = 0; j < hidden; ++j) map_[in * width_ + j] += bias[j];
  copy_padded(p.post2_weight, shape_.out, hidden, last_weight_, width_);
  copy_padded(p.post2_bias, 1, shape_.out, last_bias_, 0);
  if (shape_.layer_norm) {
    copy_padded(p.norm_weight, 1, hidden, norm_, 0);
    copy_padded(p.norm_bias, 1, hidden, norm_ + width_, 0);
  }
}

RowScratch::RowScratch(std::int64_t hidden_size, std::int64_t inputs)
    : stride(padded(hidden_size) + 16),
      storage(kChunkRows * (3 * stride + 1) + 2 * padded(hidden_size) * (inputs + 1)) {
  const std::int64_t rows = kChunkRows * stride, square = padded(hidden_size) * (inputs + 1);
  hidden = storage.data();
  normalised = hidden + rows;
  d_hidden = normalised + rows;
  inverse_deviation = d_hidden + rows;
  transposed = inverse_deviation + kChunkRows;
  d_transposed = transposed + square;
}

void unfold(const DenseShape& shape, const DenseBlocks& p, const FoldedBlocks& folded, RowScratch& s,
            const DenseBlocks& gradient) {
  const std::int64_t hidden = shape.hidden, rows = shape.in + 1, width = folded.width;
  const float* m = folded.map;
  // dW0^T = M * W1 is computed as (W1^T * M^T)^T, so that the right operand's columns are adjacent.
  kernels::multiply(hidden, hidden, rows, {p.prev, 1, hidden}, {m, width, 1}, gradient.post0_weight, hidden);
  transpose(m, rows, hidden, width, s.transposed, rows);
  kernels::multiply(hidden, rows, hidden, {p.post0_weight, hidden, 1}, {s.transposed, rows, 1},
                    s.d_transposed, rows);
  transpose(s.d_transposed, hidden, rows, rows, gradient.prev, hidden);
  copy_unpadded(m + shape.in * width, width, 1, hidden, gradient.post0_bias);
  copy_unpadded(folded.last_weight, width, shape.out, hidden, gradient.post2_weight);
  copy_unpadded(folded.last_bias, 0, 1, shape.out, gradient.post2_bias);
  if (shape.layer_norm) {
    const float* norm = folded.norm;
    copy_unpadded(norm, width, 1, hidden, gradient.norm_weight);
    copy_unpadded(norm + width, width, 1, hidden, gradient.norm_bias);
  }
}

void forward(const DenseRows& net, std::int64_t rows, const float* input, std::int64_t input_row,
             RowScratch& s, float* output) {
  SD_CHECK(rows <= kChunkRows && s.stride >= net.width(), "a chunk of rows");
  const DenseShape& shape = net.shape();
  const std::int64_t width = net.width();
  float* hidden = s.hidden;
  float* before = shape.layer_norm ? s.normalised : hidden;
  kernels::multiply(rows, width, shape.in + 1, {input, input_row, 1}, {net.map(), width, 1}, before,
                    s.stride);
  const LastLayerGroup last_layer = last_layer_of(shape);
  for (std::int64_t r = 0; r < rows; r += kGroup) {
    const std::int64_t count = std::min(kGroup, rows - r), at = r * s.stride;
    if (shape.layer_norm)
      normalise_group(before + at, count, s.stride, shape.hidden, width, s.inverse_deviation + r);
    last_layer(net, count, before + at, s.stride, hidden + at, output + r * shape.out);
  }
  apply_head(shape, rows, output);
}

void forward_all(const DenseRows& net, std::int64_t rows, const float* input, RowScratch& scratch,
                 float* output) {
  const std::int64_t width = net.shape().in + 1;
  for (std::int64_t first = 0; first < rows; first += kChunkRows) {
    forward(net, std::min(kChunkRows, rows - first), input + first * width, width, scratch,
            output + first * net.shape().out);
  }
}

void backward(const DenseRows& net, std::int64_t rows, const float* input, std::int64_t input_row,
              const float* output, const float* d_output, RowScratch& s, const FoldedBlocks& sums) {
  const DenseShape& shape = net.shape();
  std::array<float, kChunkRows * kMostOutputs> d_logits;
  head_backward(shape, rows, output, d_output, d_logits.data());
  const auto index = static_cast<std::size_t>(shape.out - 1);
  (shape.layer_norm ? kReluBackwardNorm : kReluBackward)[index](net, rows, d_logits.data(), s, &sums);
  if (shape.layer_norm) norm_backward(net, rows, s);
  kernels::multiply(shape.in + 1, net.width(), rows, {input, 1, input_row}, {s.d_hidden, s.stride, 1},
                    sums.map, sums.width, /*add=*/true);
}

void backward_input(const DenseRows& net, std::int64_t rows, const float* d_output, RowScratch& s,
                    std::int64_t first, std::int64_t count, float* d_input) {
  const std::int64_t width = net.width();
  SD_CHECK(net.shape().out == 1 && net.shape().head == Head::kIdentity && count == 4,
           "a critic's four actions");
  (net.shape().layer_norm ? relu_backward<1, true, false>
                          : relu_backward<1, false, false>)(net, rows, d_output, s, nullptr);
  if (net.shape().layer_norm) norm_backward(net, rows, s);
  const float* map = net.map() + first * width;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* d = s.d_hidden + r * s.stride;
    Vector sum[4] = {};
    for (std::int64_t j = 0; j < width; j += kLanes) {
      for (int c = 0; c < 4; ++c) sum[c] += load(d + j) * load(map + c * width + j);
    }
    const Vector4 four = base::sums_of(sum[0], sum[1], sum[2], sum[3]);
    std::memcpy(d_input + r * 4, &four, sizeof four);
  }
}

void forward_moves(const DenseRows& net, std::int64_t rows, const float* observation, std::int64_t moves,
                   RowScratch& s, float* values) {
  const DenseShape& shape = net.shape();
  const std::int64_t width = net.width(), features = shape.in - moves;
  SD_CHECK(rows <= kChunkRows && shape.out == 1 && moves == kGroup,
           "a chunk of rows, one value of four moves");
  float* base_rows = s.d_hidden;
  kernels::multiply(rows, width, features, {observation, features + 1, 1}, {net.map(), width, 1}, base_rows,
                    s.stride);
  // What a move adds to each row.
  float* added = s.hidden;
  const float *action = net.map() + features * width, *constant = net.map() + shape.in * width;
  for (std::int64_t move = 0; move < moves; ++move) {
    for (std::int64_t j = 0; j < width; j += kLanes)
      store(added + move * s.stride + j, load(action + move * width + j) + load(constant + j));
  }
  if (!shape.layer_norm) {
    for (std::int64_t r = 0; r < rows; ++r)
      values_of_moves<false>(net, base_rows + r * s.stride, 0.0F, added, Vector4{}, s.stride,
                             values + r * moves);
    return;
  }
  // A sum's mean is the sum of the means.
  const Vector4 added_mean = means<kGroup>(added, s.stride, shape.hidden, width);
  for (std::int64_t r = 0; r < rows; r += kGroup) {
    const std::int64_t count = std::min(kGroup, rows - r);
    const float* group = base_rows + r * s.stride;
    Vector4 mean{};
    if (count == kGroup) mean = means<kGroup>(group, s.stride, shape.hidden, width);
    for (std::int64_t i = 0; i < count; ++i) {
      const float* row = group + i * s.stride;
      if (count < kGroup) mean[i] = means<1>(row, s.stride, shape.hidden, width)[0];
      values_of_moves<true>(net, row, mean[i], added, added_mean, s.stride, values + (r + i) * moves);
    }
  }
}

}  // namespace snake_ddp::nets
