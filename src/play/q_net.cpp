#include "snake_ddp/play/q_net.hpp"

#include "snake_ddp/game/state.hpp"
#include "snake_ddp/kernels/q_pass.hpp"

namespace snake_ddp::play {
namespace {

using Images = std::vector<core::MirrorImage>;

// Whether a matrix is its own image. Shapes  block [rows, columns].
bool is_image(const core::AlignedFloats& block, const Images& rows, const Images& columns) {
  const auto at = [&](std::size_t row, std::size_t column) { return block[row * columns.size() + column]; };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto [row, row_sign] = rows[r];
      const auto [column, column_sign] = columns[c];
      const float image = at(static_cast<std::size_t>(row), static_cast<std::size_t>(column));
      if (at(r, c) != row_sign * column_sign * image) return false;
    }
  }
  return true;
}

}  // namespace

bool is_symmetric(const QWeights& net, const core::Mirror& mirror) {
  const auto& [inputs, outputs] = mirror;
  if (net.hidden % 2 != 0 || static_cast<std::int64_t>(inputs.size()) != net.features ||
      outputs.size() != game::kMoves)
    return false;
  const Images units = kernels::mirrored_units(net.hidden), one = {{0}};
  for (std::size_t k = 0; k < net.layer.size(); ++k) {
    const QWeights::Layer& layer = net.layer[k];
    const bool is_last = k + 1 == net.layer.size();
    // Weights are [in, hidden], the last ones [4, hidden].
    if (!is_image(layer.weight,
                  is_last  ? outputs
                  : k == 0 ? inputs
                           : units,
                  units) ||
        !is_image(layer.bias, one, is_last ? outputs : units))
      return false;
    if (!layer.gain.empty() && !(is_image(layer.gain, one, units) && is_image(layer.shift, one, units)))
      return false;
  }
  return true;
}

void fold(QWeights& net, const std::vector<core::MirrorImage>& mirrored_inputs) {
  net.inputs = kernels::halves_of(mirrored_inputs);
  const kernels::Halves units = kernels::halves_of(kernels::mirrored_units(net.hidden));
  for (std::size_t k = 0; k < net.folded.size(); ++k) {
    const kernels::Halves& halves = k == 0 ? net.inputs : units;
    net.folded[k].resize(static_cast<std::size_t>(halves.count() * net.hidden / 2));
    kernels::fold_weight(halves, net.hidden / 2, net.layer[k].weight.data(), net.folded[k].data());
  }
}

void fold_if_symmetric(QWeights& net, const core::Mirror& mirror) {
  if (is_symmetric(net, mirror)) fold(net, mirror.inputs);
}

void round_weights(QWeights& net, core::Bf16By instructions) {
  const bool halved = kernels::halves_pay(instructions) && !net.folded[0].empty();
  const auto weights = [&](std::size_t k) { return (halved ? net.folded[k] : net.layer[k].weight).data(); };
  net.first_rounded.set(halved ? &net.inputs : nullptr, net.features, net.hidden, weights(0), instructions);
  net.second_rounded.set(halved, net.hidden, weights(1), instructions);
}

void forward(const QWeights& net, std::int64_t count, const float* rows, std::int64_t row_floats,
             QScratch& scratch, float* q) {
  const auto floats = static_cast<std::size_t>(count * net.hidden);
  for (core::AlignedFloats* v : {&scratch.first, &scratch.second})
    if (v->size() < floats) v->resize(floats);
  if (scratch.deviation.size() < static_cast<std::size_t>(count)) scratch.deviation.resize(count);
  kernels::QLayers layers{net.features, net.hidden, game::kMoves, {}};
  for (std::size_t k = 0; k < net.layer.size(); ++k) {
    const QWeights::Layer& layer = net.layer[k];
    layers.layer[k] = {layer.weight.data(), layer.bias.data()};
    if (!layer.gain.empty())
      layers.layer[k].gain = layer.gain.data(), layers.layer[k].shift = layer.shift.data();
  }
  const bool rounded = !net.first_rounded.empty();
  if (rounded) layers.rounded_first = &net.first_rounded, layers.rounded_second = &net.second_rounded;
  if (rounded ? net.first_rounded.halved() : !net.folded[0].empty()) {
    layers.inputs = &net.inputs;
    layers.folded = {net.folded[0].data(), net.folded[1].data()};
  }
  float *first = scratch.first.data(), *second = scratch.second.data(), *deviation = scratch.deviation.data();
  kernels::forward(layers, count, rows, row_floats,
                   {{first, second}, {first, second}, {deviation, deviation}, first}, q);
}

}  // namespace snake_ddp::play
