#include "snake_ddp/kernels/layer_norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "snake_ddp/core/simd.hpp"
#include "snake_ddp/kernels/halves.hpp"

namespace snake_ddp::kernels {
namespace {

using core::kLanes;
using core::Vector;

// This many vector sums are under way at once: each addition would otherwise wait for the previous one.
constexpr int kSums = 4;

template <class T>
T get(const float* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void put(float* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// A NaN stays one.
template <class T>
T positive(T value) {
  return value < T{} ? T{} : value;
}

// Calls column(kind, j, sum) for all columns of a row. `kind` has the type of what column j begins: a vector, or at the
// row's end a float. `sum` is the sum of `Sum` that it may add to.
template <class Column>
[[gnu::always_inline]] inline void columns(std::int64_t width, const Column& column) {
  std::int64_t j = 0;
  for (; j + kSums * kLanes <= width; j += kSums * kLanes) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) column(Vector{}, j + s * kLanes, s);
  }
  for (; j + kLanes <= width; j += kLanes) column(Vector{}, j, 0);
  for (; j < width; ++j) column(0.0F, j, 0);
}

struct Sum {
  Vector vectors[kSums] = {};
  float rest = 0.0F;

  void add(int sum, Vector value) { vectors[sum] += value; }
  void add(int /*sum*/, float value) { rest += value; }
  // The vectors' sum; its lanes are still to be added.
  [[nodiscard]] Vector lanes() const { return (vectors[0] + vectors[1]) + (vectors[2] + vectors[3]); }
  [[nodiscard]] float total() const { return core::sum_of(lanes()) + rest; }
};

// z becomes its normal form if kKeep; otherwise `out` is z. Returns the inverse deviation. The other pointers do not alias,
// which the compiler must know to keep several columns in flight.
template <bool kKeep>
float norm_relu_row(std::int64_t width, const float* __restrict bias, const float* __restrict gain,
                    const float* __restrict shift, float* z, float* out) {
  const float share = 1.0F / static_cast<float>(width);
  Sum sum, squares;
  columns(width, [&](auto kind, std::int64_t j, int s) {
    using T = decltype(kind);
    const T value = get<T>(z + j) + get<T>(bias + j);
    put(z + j, value);
    sum.add(s, value);
  });
  const float mean = sum.total() * share;
  columns(width, [&](auto kind, std::int64_t j, int s) {
    const auto centred = get<decltype(kind)>(z + j) - mean;
    squares.add(s, centred * centred);
  });
  const float inverse = 1.0F / std::sqrt(squares.total() * share + static_cast<float>(kNormEpsilon));
  columns(width, [&](auto kind, std::int64_t j, int /*s*/) {
    using T = decltype(kind);
    const T normal = (get<T>(z + j) - mean) * inverse;
    if constexpr (kKeep) put(z + j, normal);
    put(out + j, positive<T>(normal * get<T>(gain + j) + get<T>(shift + j)));
  });
  return inverse;
}

// kRows rows together, so that the sums over rows are read and written once for all of them; the bits do not depend on kRows.
template <int kRows>
void norm_relu_rows_backward(std::int64_t width, const float* __restrict gain, const float* __restrict normal,
                             const float* __restrict out, const float* __restrict inverse,
                             float* __restrict d, float* __restrict d_bias, float* __restrict d_gain,
                             float* __restrict d_shift) {
  Sum sum[kRows], along[kRows];
  columns(width, [&](auto kind, std::int64_t j, int s) {
    using T = decltype(kind);
    T of_shift = get<T>(d_shift + j), of_gain = get<T>(d_gain + j);
    const T factor = get<T>(gain + j);
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = r * width + j;
      const T x = get<T>(normal + at);
      const T open = get<T>(out + at) > T{} ? get<T>(d + at) : T{};
      of_shift += open;
      of_gain += open * x;
      const T scaled = open * factor;
      put(d + at, scaled);
      sum[r].add(s, scaled);
      along[r].add(s, scaled * x);
    }
    put(d_shift + j, of_shift);
    put(d_gain + j, of_gain);
  });
  const float share = 1.0F / static_cast<float>(width);
  float mean[kRows], slope[kRows];
  for (int r = 0; r < kRows; ++r) {
    mean[r] = sum[r].total() * share;
    slope[r] = along[r].total() * share;
  }
  columns(width, [&](auto kind, std::int64_t j, int /*s*/) {
    using T = decltype(kind);
    T of_bias = get<T>(d_bias + j);
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = r * width + j;
      const T value = (get<T>(d + at) - mean[r] - get<T>(normal + at) * slope[r]) * inverse[r];
      put(d + at, value);
      of_bias += value;
    }
    put(d_bias + j, of_bias);
  });
}

// few_outputs for four of them and whole vectors, with the same bits: a row is read once.
void four_outputs(std::int64_t rows, std::int64_t width, const float* hidden, const float* weight,
                  const float* bias, float* out) {
  constexpr int kOutputs = 4;
  for (std::int64_t r = 0; r < rows; ++r, hidden += width, out += kOutputs) {
    Sum sums[kOutputs];
    for (std::int64_t j = 0; j < width; j += kSums * kLanes) {
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s) {
        const Vector h = get<Vector>(hidden + j + s * kLanes);
#pragma GCC unroll 4
        for (int o = 0; o < kOutputs; ++o)
          sums[o].add(s, h * get<Vector>(weight + o * width + j + s * kLanes));
      }
    }
    put(out, core::sums_of(sums[0].lanes(), sums[1].lanes(), sums[2].lanes(), sums[3].lanes()) +
                 get<core::Vector4>(bias));
  }
}

}  // namespace

void norm_relu(std::int64_t rows, std::int64_t width, const float* bias, const float* gain,
               const float* shift, float* z, float* inverse_deviation, float* out, bool halved, float* sums) {
  const auto row = out == z ? norm_relu_row<false> : norm_relu_row<true>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = r * width;
    if (halved) exchange_halves(1, width / 2, z + at, z + at);
    inverse_deviation[r] = row(width, bias, gain, shift, z + at, out + at);
    if (sums != nullptr) exchange_halves(1, width / 2, out + at, sums + at);
  }
}

void norm_relu_backward(std::int64_t rows, std::int64_t width, const float* gain, const float* normal,
                        const float* inverse_deviation, const float* out, float* d, float* d_bias,
                        float* d_gain, float* d_shift, Exchange exchange) {
  constexpr std::int64_t kTogether = 2;
  for (std::int64_t r = 0; r < rows; r += kTogether) {
    const std::int64_t at = r * width, count = std::min(kTogether, rows - r);
    if (exchange.before) exchange_halves(count, width / 2, d + at, d + at);
    const auto back = count == kTogether ? norm_relu_rows_backward<kTogether> : norm_relu_rows_backward<1>;
    back(width, gain, normal + at, out + at, inverse_deviation + r, d + at, d_bias, d_gain, d_shift);
    if (exchange.after) exchange_halves(count, width / 2, d + at, d + at);
  }
}

void bias_relu(std::int64_t rows, std::int64_t width, const float* bias, float* z, bool halved, float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = z + r * width;
    if (halved) exchange_halves(1, width / 2, row, row);
    columns(width, [&](auto kind, std::int64_t j, int /*s*/) {
      using T = decltype(kind);
      put(row + j, positive<T>(get<T>(row + j) + get<T>(bias + j)));
    });
    if (sums != nullptr) exchange_halves(1, width / 2, row, sums + r * width);
  }
}

void bias_relu_backward(std::int64_t rows, std::int64_t width, const float* out, float* d, float* d_bias,
                        Exchange exchange) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* y = out + r * width;
    float* g = d + r * width;
    if (exchange.before) exchange_halves(1, width / 2, g, g);
    columns(width, [&](auto kind, std::int64_t j, int /*s*/) {
      using T = decltype(kind);
      const T open = get<T>(y + j) > T{} ? get<T>(g + j) : T{};
      put(g + j, open);
      put(d_bias + j, get<T>(d_bias + j) + open);
    });
    if (exchange.after) exchange_halves(1, width / 2, g, g);
  }
}

void few_outputs(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                 const float* weight, const float* bias, float* out) {
  if (outputs == 4 && width % (kSums * kLanes) == 0) {
    four_outputs(rows, width, hidden, weight, bias, out);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* h = hidden + r * width;
    for (std::int64_t o = 0; o < outputs; ++o) {
      const float* w = weight + o * width;
      Sum sum;
      columns(width, [&](auto kind, std::int64_t j, int s) {
        using T = decltype(kind);
        sum.add(s, get<T>(h + j) * get<T>(w + j));
      });
      out[r * outputs + o] = sum.total() + bias[o];
    }
  }
}

void few_outputs_backward(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                          const float* weight, const float* d_out, float* d_hidden, float* d_weight,
                          float* d_bias) {
  for (std::int64_t r = 0; r < rows; ++r, hidden += width, d_hidden += width) {
    bool begun = false;
    for (std::int64_t o = 0; o < outputs; ++o) {
      const float slope = d_out[r * outputs + o];
      if (slope == 0.0F) continue;  // in Q-learning one output per row has a gradient
      const float* w = weight + o * width;
      float* d_w = d_weight + o * width;
      columns(width, [&](auto kind, std::int64_t j, int /*s*/) {
        using T = decltype(kind);
        put(d_hidden + j, (begun ? get<T>(d_hidden + j) : T{}) + slope * get<T>(w + j));
        put(d_w + j, get<T>(d_w + j) + slope * get<T>(hidden + j));
      });
      d_bias[o] += slope;
      begun = true;
    }
    if (!begun) std::fill_n(d_hidden, width, 0.0F);
  }
}

void softmax_of_four(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 4) {
    float* v = values + i;
    const float most = std::max(std::max(v[0], v[1]), std::max(v[2], v[3]));
    for (int o = 0; o < 4; ++o) v[o] -= most;
  }
  std::array<float, kLanes> line{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(kLanes, count - i));
    std::memcpy(line.data(), values + i, n * sizeof(float));
    put(line.data(), core::exp_of(get<Vector>(line.data())));
    std::memcpy(values + i, line.data(), n * sizeof(float));
  }
  for (std::int64_t i = 0; i < count; i += 4) {
    float* v = values + i;
    const float inverse = 1.0F / ((v[0] + v[2]) + (v[1] + v[3]));
    for (int o = 0; o < 4; ++o) v[o] *= inverse;
  }
}

}  // namespace snake_ddp::kernels
