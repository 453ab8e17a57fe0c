#include "snake_ddp/kernels/q_pass.hpp"

#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::kernels {

void forward(const QLayers& net, std::int64_t rows, const float* from, std::int64_t from_row,
             const QRows& kept, float* q) {
  const std::int64_t width = net.hidden;
  const bool symmetric = net.inputs != nullptr, rounded = net.rounded_first != nullptr;
  const bool dense = net.by_density && !has_many_zeros(rows, net.in, from, from_row);
  const auto activate = [&](std::size_t k, bool halved, float* sums) {
    const QLayers::Layer& layer = net.layer[k];
    if (layer.gain != nullptr) {
      norm_relu(rows, width, layer.bias, layer.gain, layer.shift, kept.normal[k], kept.inverse_deviation[k],
                kept.hidden[k], halved, sums);
    } else {
      bias_relu(rows, width, layer.bias, kept.hidden[k], halved, sums);
    }
  };
  float* first = kept.normal[0];
  if (rounded && !dense) {
    net.rounded_first->multiply(symmetric ? net.inputs : nullptr, rows, from, from_row, first);
  } else if (symmetric && !dense) {
    multiply_halves(*net.inputs, rows, from, from_row, net.folded[0], width / 2, first);
  } else {
    multiply_sparse(rows, width, net.in, from, from_row, net.layer[0].weight, first, width);
  }
  activate(0, symmetric && !dense, symmetric ? kept.sums : nullptr);
  const float* below = symmetric ? kept.sums : kept.hidden[0];
  float* second = kept.normal[1];
  if (rounded) {
    net.rounded_second->multiply(rows, below, second);
  } else if (symmetric) {
    multiply_units(rows, below, net.folded[1], width / 2, second);
  } else {
    multiply_sparse(rows, width, width, below, width, net.layer[1].weight, second, width);
  }
  activate(1, symmetric, nullptr);
  few_outputs(rows, width, net.out, kept.hidden[1], net.layer[2].weight, net.layer[2].bias, q);
}

}  // namespace snake_ddp::kernels
