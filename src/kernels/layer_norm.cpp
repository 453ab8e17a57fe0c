#include "snake_ddp/kernels/layer_norm.hpp"

#include <algorithm>
#include <cmath>

// The build lets the compiler reorder sums in this file, so that plain loops become vector instructions.
namespace snake_ddp::kernels {

void norm_relu(std::int64_t rows, std::int64_t width, const float* bias, const float* gain,
               const float* shift, float* z, float* inverse_deviation, float* out) {
  const float share = 1.0F / static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = z + r * width;
    float* to = out + r * width;
    float sum = 0.0F;
    for (std::int64_t j = 0; j < width; ++j) {
      row[j] += bias[j];
      sum += row[j];
    }
    const float mean = sum * share;
    float squares = 0.0F;
    for (std::int64_t j = 0; j < width; ++j) squares += (row[j] - mean) * (row[j] - mean);
    const float inverse = 1.0F / std::sqrt(squares * share + static_cast<float>(kNormEpsilon));
    inverse_deviation[r] = inverse;
    if (to == row) {  // the same bits as below: the normal form is rounded first
      for (std::int64_t j = 0; j < width; ++j) row[j] = (row[j] - mean) * inverse;
      for (std::int64_t j = 0; j < width; ++j) {
        const float value = row[j] * gain[j] + shift[j];
        row[j] = value > 0.0F ? value : 0.0F;
      }
      continue;
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const float normal = (row[j] - mean) * inverse;
      row[j] = normal;
      const float value = normal * gain[j] + shift[j];
      to[j] = value > 0.0F ? value : 0.0F;
    }
  }
}

namespace {

// One row of the backward pass. The pointers do not alias, which the compiler must know to keep eight or sixteen
// columns in flight.
void row_backward(std::int64_t width, const float* __restrict gain, const float* __restrict x,
                  const float* __restrict y, float inverse, float* __restrict g, float* __restrict d_bias,
                  float* __restrict d_gain, float* __restrict d_shift) {
  float sum = 0.0F, along = 0.0F;
  for (std::int64_t j = 0; j < width; ++j) {
    const float open = g[j] * static_cast<float>(y[j] > 0.0F);
    const float scaled = open * gain[j];
    d_shift[j] += open;
    d_gain[j] += open * x[j];
    g[j] = scaled;
    sum += scaled;
    along += scaled * x[j];
  }
  const float share = 1.0F / static_cast<float>(width);
  sum *= share;
  along *= share;
  for (std::int64_t j = 0; j < width; ++j) {
    const float d = (g[j] - sum - x[j] * along) * inverse;
    g[j] = d;
    d_bias[j] += d;
  }
}

}  // namespace

void norm_relu_backward(std::int64_t rows, std::int64_t width, const float* gain, const float* normal,
                        const float* inverse_deviation, const float* out, float* d, float* d_bias,
                        float* d_gain, float* d_shift) {
  for (std::int64_t r = 0; r < rows; ++r) {
    row_backward(width, gain, normal + r * width, out + r * width, inverse_deviation[r], d + r * width,
                 d_bias, d_gain, d_shift);
  }
}

void bias_relu(std::int64_t rows, std::int64_t width, const float* bias, float* z) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = z + r * width;
    for (std::int64_t j = 0; j < width; ++j) {
      const float value = row[j] + bias[j];
      row[j] = value > 0.0F ? value : 0.0F;
    }
  }
}

void bias_relu_backward(std::int64_t rows, std::int64_t width, const float* out, float* d, float* d_bias) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* y = out + r * width;
    float* g = d + r * width;
    for (std::int64_t j = 0; j < width; ++j) {
      g[j] = y[j] > 0.0F ? g[j] : 0.0F;
      d_bias[j] += g[j];
    }
  }
}

void few_outputs(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                 const float* weight, const float* bias, float* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* h = hidden + r * width;
    for (std::int64_t o = 0; o < outputs; ++o) {
      const float* w = weight + o * width;
      float sum = 0.0F;
      for (std::int64_t j = 0; j < width; ++j) sum += h[j] * w[j];
      out[r * outputs + o] = sum + bias[o];
    }
  }
}

namespace {

void add_scaled(std::int64_t width, float factor, const float* __restrict from, float* __restrict to) {
  for (std::int64_t j = 0; j < width; ++j) to[j] += factor * from[j];
}

}  // namespace

void few_outputs_backward(std::int64_t rows, std::int64_t width, std::int64_t outputs, const float* hidden,
                          const float* weight, const float* d_out, float* d_hidden, float* d_weight,
                          float* d_bias) {
  std::fill(d_hidden, d_hidden + rows * width, 0.0F);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      const float slope = d_out[r * outputs + o];
      if (slope == 0.0F) continue;  // in Q-learning one output per row has a gradient
      add_scaled(width, slope, weight + o * width, d_hidden + r * width);
      add_scaled(width, slope, hidden + r * width, d_weight + o * width);
      d_bias[o] += slope;
    }
  }
}

}  // namespace snake_ddp::kernels
