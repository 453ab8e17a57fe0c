#include "snake_ddp/nets/lstm_cell.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>

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

}  // namespace

void cell_forward(const CellStep& step, const at::Tensor& h) {
  const std::int64_t width = h.size(1);
  const Rows gates(step.gates), c(step.c), tanh_c(step.tanh_c), before(step.c_before), out(h);
  at::parallel_for(0, h.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* gate = gates.at(row);
      for (std::int64_t j = 0; j < 2 * width; ++j) gate[j] = sigmoid_of(gate[j]);
      for (std::int64_t j = 2 * width; j < 3 * width; ++j) gate[j] = tanh_of(gate[j]);
      for (std::int64_t j = 3 * width; j < 4 * width; ++j) gate[j] = sigmoid_of(gate[j]);
      const float *i = gate, *f = i + width, *g = f + width, *o = g + width;
      float *cell = c.at(row), *squashed = tanh_c.at(row), *to = out.at(row);
      if (before.data != nullptr) {
        const float* old = before.at(row);
        for (std::int64_t j = 0; j < width; ++j) cell[j] = f[j] * old[j] + i[j] * g[j];
      } else {
        for (std::int64_t j = 0; j < width; ++j) cell[j] = i[j] * g[j];
      }
      for (std::int64_t j = 0; j < width; ++j) {
        squashed[j] = tanh_of(cell[j]);
        to[j] = o[j] * squashed[j];
      }
    }
  });
}

void cell_backward(const CellStep& step, const at::Tensor& d_h, const at::Tensor& d_c, bool last) {
  const std::int64_t width = d_h.size(1);
  const Rows gates(step.gates), tanh_c(step.tanh_c), before(step.c_before), above(d_h), cell(d_c);
  at::parallel_for(0, d_h.size(0), kGrain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      float *i = gates.at(row), *f = i + width, *g = f + width, *o = g + width;
      const float *squashed = tanh_c.at(row), *from_above = above.at(row);
      float* dc = cell.at(row);
      for (std::int64_t j = 0; j < width; ++j) {
        const float dh = from_above[j], old = before.data != nullptr ? before.at(row)[j] : 0.0F;
        const float t = squashed[j];
        const float d = (last ? 0.0F : dc[j]) + dh * o[j] * (1.0F - t * t);
        const float in = i[j], forget = f[j], candidate = g[j];
        i[j] = d * candidate * in * (1.0F - in);
        f[j] = d * old * forget * (1.0F - forget);
        g[j] = d * in * (1.0F - candidate * candidate);
        o[j] = dh * t * o[j] * (1.0F - o[j]);
        dc[j] = d * forget;
      }
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
