#include "nets/lstm_cell.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "activations.hpp"

namespace snake_ddp::nets {
namespace {

// The least number of boards per thread.
constexpr std::int64_t kGrain = 32;

// Rows of a matrix; null for an undefined one.
struct Rows {
  explicit Rows(const at::Tensor& t)
      : data(t.defined() ? t.data_ptr<float>() : nullptr), stride(t.defined() ? t.stride(0) : 0) {}
  [[nodiscard]] float* at(std::int64_t row) const { return data + row * stride; }
  float* data;
  std::int64_t stride;
};

// The pointers do not alias, which the compiler must know to keep several columns in flight.
void cell_row_forward(std::int64_t width, const float* __restrict before, float* __restrict input,
                      float* __restrict forget, float* __restrict candidate, float* __restrict output,
                      float* __restrict cell, float* __restrict squashed, float* __restrict h) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float i = sigmoid_of(input[j]), f = sigmoid_of(forget[j]), g = tanh_of(candidate[j]),
                o = sigmoid_of(output[j]), c = f * before[j] + i * g, t = tanh_of(c);
    input[j] = i;
    forget[j] = f;
    candidate[j] = g;
    output[j] = o;
    cell[j] = c;
    squashed[j] = t;
    h[j] = o * t;
  }
}

void cell_row_backward(std::int64_t width, const float* __restrict before, const float* __restrict squashed,
                       const float* __restrict above, float* __restrict input, float* __restrict forget,
                       float* __restrict candidate, float* __restrict output, float* __restrict d_cell) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float i = input[j], f = forget[j], g = candidate[j], o = output[j], t = squashed[j], dh = above[j];
    const float d = d_cell[j] + dh * o * (1.0F - t * t);
    input[j] = d * g * i * (1.0F - i);
    forget[j] = d * before[j] * f * (1.0F - f);
    candidate[j] = d * i * (1.0F - g * g);
    output[j] = dh * t * o * (1.0F - o);
    d_cell[j] = d * f;
  }
}

}  // namespace

void cell_forward(const CellStep& step, const at::Tensor& h) {
  const std::int64_t width = h.size(1);
  const Rows gates(step.gates), c(step.c), tanh_c(step.tanh_c), before(step.c_before), out(h);
  const std::vector<float> nothing(before.data == nullptr ? static_cast<std::size_t>(width) : 0);
  at::parallel_for(0, h.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* gate = gates.at(row);
      cell_row_forward(width, before.data != nullptr ? before.at(row) : nothing.data(), gate, gate + width,
                       gate + 2 * width, gate + 3 * width, c.at(row), tanh_c.at(row), out.at(row));
    }
  });
}

void cell_backward(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c, bool last) {
  const std::int64_t width = d_h.size(1);
  const Rows gates(step.gates), tanh_c(step.tanh_c), before(step.c_before), above(d_h), cell(d_c);
  const std::vector<float> nothing(before.data == nullptr ? static_cast<std::size_t>(width) : 0);
  at::parallel_for(0, d_h.size(0), kGrain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      float* gate = gates.at(row);
      if (last) std::fill_n(cell.at(row), width, 0.0F);
      cell_row_backward(width, before.data != nullptr ? before.at(row) : nothing.data(), tanh_c.at(row),
                        above.at(row), gate, gate + width, gate + 2 * width, gate + 3 * width, cell.at(row));
    }
  });
}

void plain_cell_forward(const CellStep& step, const at::Tensor& h) {
  const auto gate = at::chunk(step.gates, 4, 1);
  for (const std::size_t k : {0, 1, 3}) at::Tensor(gate[k]).sigmoid_();
  at::Tensor(gate[2]).tanh_();
  at::Tensor c = step.c, tanh_c = step.tanh_c, out = h;
  at::mul_out(c, gate[0], gate[2]);
  if (step.c_before.defined()) c.addcmul_(gate[1], step.c_before);
  at::tanh_out(tanh_c, c);
  at::mul_out(out, gate[3], tanh_c);
}

void plain_cell_backward(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c, bool last) {
  const auto gate = at::chunk(step.gates, 4, 1);
  const at::Tensor i = gate[0].clone(), f = gate[1].clone(), g = gate[2].clone(), o = gate[3].clone();
  at::Tensor d = d_h * o * (1 - step.tanh_c.square());
  if (!last) d += d_c;
  at::Tensor(gate[0]).copy_(d * g * i * (1 - i));
  if (step.c_before.defined()) {
    at::Tensor(gate[1]).copy_(d * step.c_before * f * (1 - f));
  } else {
    at::Tensor(gate[1]).zero_();
  }
  at::Tensor(gate[2]).copy_(d * i * (1 - g.square()));
  at::Tensor(gate[3]).copy_(d_h * step.tanh_c * o * (1 - o));
  at::Tensor(d_c).copy_(d * f);
}

}  // namespace snake_ddp::nets
