#include "nets/bicnet.hpp"

#include <ATen/ATen.h>

#include "fit.hpp"

namespace snake_ddp::nets {
namespace {

// Weights are stored transposed, [inputs, outputs], as the forward pass reads them; both directions side by side.
enum BlockIndex : std::size_t {
  kPrev,           // [in + 1, H], the last row the bias
  kInput,          // [H, 8 H], the LSTM's weight_ih
  kInputBias,      // [8 H]
  kRecurrent,      // [2 H, 4 H], weight_hh: the directions one below the other
  kRecurrentBias,  // [8 H]
  kPost0Weight,    // [2 H, H]
  kPost0Bias,      // [H]
  kPost2Weight,    // [out, H]: as it is in files
  kPost2Bias       // [out]
};

constexpr std::int64_t kDirections = 2, kGates = 4;

std::vector<Block> blocks_of(const BicnetShape& s) {
  const std::int64_t h = s.hidden, gates = kDirections * kGates * h;
  return {{s.in + 1, h}, {h, gates},           {gates, 0}, {kDirections * h, kGates * h},
          {gates, 0},    {kDirections * h, h}, {h, 0},     {s.out, h},
          {s.out, 0}};
}

at::Tensor rows_of(const at::Tensor& t) { return t.view({-1, t.size(-1)}); }

// The snake that a direction reaches at its step 0, 1, 2.
std::int64_t snake_at(std::int64_t direction, std::int64_t step) {
  return direction == 0 ? step : kTeamSize - 1 - step;
}

// One direction's part of a buffer [3, B, 2 n], for one snake: [B, n].
at::Tensor part(const at::Tensor& buffer, std::int64_t direction, std::int64_t step) {
  const std::int64_t width = buffer.size(2) / kDirections;
  return buffer.select(0, snake_at(direction, step)).narrow(1, direction * width, width);
}

CellStep cell_step(const BicnetPass& pass, std::int64_t direction, std::int64_t step) {
  return {part(pass.gates, direction, step), part(pass.c, direction, step),
          part(pass.tanh_c, direction, step), step > 0 ? part(pass.c, direction, step - 1) : at::Tensor()};
}

// ReLU on pass.hidden in place, then the last layer and the head: too narrow for products of our own.
void last_layer(const BicnetNet& net, BicnetPass& pass) {
  const Head head = net.shape().head;
  at::Tensor output = rows_of(pass.output);
  // A softmax cannot be done in place.
  if (head == Head::kSoftmax) fit(pass.logits, output.sizes(), output);
  at::Tensor& logits = head == Head::kSoftmax ? pass.logits : output;
  pass.hidden.relu_();
  at::addmm_out(logits, net.parameters().block(kPost2Bias), pass.hidden,
                net.parameters().block(kPost2Weight).t());
  if (head == Head::kSoftmax) at::_softmax_out(output, logits, 1, false);
  if (head == Head::kTanh) output.tanh_();
}

// dL/d(output) -> dL/d(pass.hidden before the ReLU) in pass.d_hidden, and the last layer's gradients if requested.
void last_layer_back(const BicnetNet& net, const at::Tensor& d_output, BicnetPass& pass,
                     FlatParameters* gradients) {
  const Head head = net.shape().head;
  const at::Tensor output = rows_of(pass.output);
  at::Tensor d_logits = rows_of(d_output);
  if (head != Head::kIdentity) {
    fit(pass.d_logits, output.sizes(), output);
    if (head == Head::kSoftmax)
      at::_softmax_backward_data_out(pass.d_logits, d_logits, output, 1, at::kFloat);
    if (head == Head::kTanh) at::tanh_backward_out(pass.d_logits, d_logits, output);
    d_logits = pass.d_logits;
  }
  if (gradients != nullptr) {
    at::Tensor d_weight = gradients->block(kPost2Weight), d_bias = gradients->block(kPost2Bias);
    at::mm_out(d_weight, d_logits.t(), pass.hidden);
    at::sum_out(d_bias, d_logits, {0});
  }
  fit(pass.d_hidden, pass.hidden.sizes(), pass.hidden);
  at::mm_out(pass.d_hidden, d_logits, net.parameters().block(kPost2Weight));
  at::threshold_backward_out(pass.d_hidden, pass.d_hidden, pass.hidden, 0);
}

// dL/d(output) -> dL/d(gates before activation) in pass.gates, and the gradients of the layers above the LSTM.
void back_to_gates(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& d_output, BicnetPass& pass,
                   FlatParameters* gradients) {
  last_layer_back(net, d_output, pass, gradients);
  if (gradients != nullptr) {
    net.backend().product(gradients->block(kPost0Weight), rows_of(pass.states).t(), pass.d_hidden);
    at::Tensor d_bias = gradients->block(kPost0Bias);
    at::sum_out(d_bias, pass.d_hidden, {0});
  }
  const std::int64_t boards = d_output.size(1), h = net.shape().hidden;
  fit(pass.d_states, pass.states.sizes(), pass.states);
  net.backend().product(rows_of(pass.d_states), pass.d_hidden, maps.post_dense);
  fit(pass.d_c, {boards, h}, d_output);
  for (std::int64_t direction = 0; direction < kDirections; ++direction) {
    for (std::int64_t step = kTeamSize - 1; step >= 0; --step) {
      const bool last = step == kTeamSize - 1;
      const at::Tensor d_state = part(pass.d_states, direction, step);
      if (!last)
        net.backend().product(d_state, part(pass.gates, direction, step + 1), maps.recurrent[direction],
                              true);
      net.backend().lstm_step_back(cell_step(pass, direction, step), d_state, pass.d_c, last);
    }
  }
}

}  // namespace

BicnetNet::BicnetNet(BicnetShape shape, at::Device device, const Backend* backend)
    : Net(shape, blocks_of(shape), device, backend) {}

void BicnetNet::init(std::uint64_t seed) {
  std::vector<std::pair<at::Tensor, std::int64_t>> parts = {{parameters().block(kPrev), shape().in}};
  for (std::size_t block = kInput; block <= kPost2Bias; ++block) {
    const bool both = block == kPost0Weight || block == kPost0Bias;
    parts.emplace_back(parameters().block(block), (both ? kDirections : 1) * shape().hidden);
  }
  draw_weights(seed, parts);
}

NamedTensors BicnetNet::named_views(const FlatParameters& of) const {
  const std::int64_t h = shape().hidden, gates = kGates * h;
  const at::Tensor& prev = of.block(kPrev);
  const NamedTensors first = {{"prev_dense.0.weight", prev.narrow(0, 0, shape().in).t()},
                              {"prev_dense.0.bias", prev.select(0, shape().in)}};
  NamedTensors lstm;
  for (std::int64_t d = 0; d < kDirections; ++d) {
    const std::string end = d == 0 ? "_l0" : "_l0_reverse";
    lstm.emplace_back("comm_net.lstm.weight_ih" + end, of.block(kInput).narrow(1, d * gates, gates).t());
    lstm.emplace_back("comm_net.lstm.weight_hh" + end, of.block(kRecurrent).narrow(0, d * h, h).t());
    lstm.emplace_back("comm_net.lstm.bias_ih" + end, of.block(kInputBias).narrow(0, d * gates, gates));
    lstm.emplace_back("comm_net.lstm.bias_hh" + end, of.block(kRecurrentBias).narrow(0, d * gates, gates));
  }
  NamedTensors out = shape().role == BicnetRole::kActor ? first : lstm;
  const NamedTensors& second = shape().role == BicnetRole::kActor ? lstm : first;
  out.insert(out.end(), second.begin(), second.end());
  out.emplace_back("post_dense.0.weight", of.block(kPost0Weight).t());
  out.emplace_back("post_dense.0.bias", of.block(kPost0Bias));
  out.emplace_back("post_dense.2.weight", of.block(kPost2Weight));
  out.emplace_back("post_dense.2.bias", of.block(kPost2Bias));
  return out;
}

void BicnetMaps::refresh(const BicnetNet& net, bool with_backward) {
  const FlatParameters& p = net.parameters();
  const std::int64_t h = net.shape().hidden;
  const at::Tensor& like = p.flat();
  fit(input, {net.shape().in + 1, kDirections * kGates * h}, like);
  net.backend().product(input, p.block(kPrev), p.block(kInput));
  input.select(0, net.shape().in).add_(p.block(kInputBias)).add_(p.block(kRecurrentBias));
  if (!with_backward) return;
  fit(recurrent, {kDirections, kGates * h, h}, like);
  for (std::int64_t d = 0; d < kDirections; ++d)
    recurrent[d].copy_(p.block(kRecurrent).narrow(0, d * h, h).t());
  fit(post_dense, {h, kDirections * h}, like);
  post_dense.copy_(p.block(kPost0Weight).t());
}

void forward(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& input, BicnetPass& pass) {
  const FlatParameters& p = net.parameters();
  const std::int64_t boards = input.size(1), h = net.shape().hidden;
  fit(pass.gates, {kTeamSize, boards, kDirections * kGates * h}, input);
  for (at::Tensor* t : {&pass.c, &pass.tanh_c, &pass.states})
    fit(*t, {kTeamSize, boards, kDirections * h}, input);
  fit(pass.hidden, {kTeamSize * boards, h}, input);
  fit(pass.output, {kTeamSize, boards, net.shape().out}, input);

  net.backend().product(rows_of(pass.gates), rows_of(input), maps.input);
  for (std::int64_t direction = 0; direction < kDirections; ++direction) {
    const at::Tensor weight = p.block(kRecurrent).narrow(0, direction * h, h);
    for (std::int64_t step = 0; step < kTeamSize; ++step) {
      const CellStep cell = cell_step(pass, direction, step);
      if (step > 0) net.backend().product(cell.gates, part(pass.states, direction, step - 1), weight, true);
      net.backend().lstm_step(cell, part(pass.states, direction, step));
    }
  }
  net.backend().product(pass.hidden, rows_of(pass.states), p.block(kPost0Weight));
  pass.hidden.add_(p.block(kPost0Bias));
  last_layer(net, pass);
}

void backward_parameters(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& input,
                         const at::Tensor& d_output, BicnetPass& pass, FlatParameters& gradients) {
  const FlatParameters& p = net.parameters();
  const BicnetShape& shape = net.shape();
  const std::int64_t h = shape.hidden, gates = kGates * h;
  back_to_gates(net, maps, d_output, pass, &gradients);
  // Two of a direction's steps have a predecessor: snakes 1 and 2 follow 0 and 1 in one direction, 0 and 1 follow 1
  // and 2 in the other.
  for (std::int64_t d = 0; d < kDirections; ++d) {
    const at::Tensor before = rows_of(pass.states.narrow(0, d, kTeamSize - 1)).narrow(1, d * h, h);
    const at::Tensor d_gates =
        rows_of(pass.gates.narrow(0, 1 - d, kTeamSize - 1)).narrow(1, d * gates, gates);
    net.backend().product(gradients.block(kRecurrent).narrow(0, d * h, h), before.t(), d_gates);
  }
  // The gradient of the map from features to gates, then of the two it is made of, as in DenseNet.
  fit(pass.d_map, {shape.in + 1, kDirections * gates}, input);
  net.backend().product(pass.d_map, rows_of(input).t(), rows_of(pass.gates));
  net.backend().product(gradients.block(kInput), p.block(kPrev).t(), pass.d_map);
  fit(pass.d_map_transposed, {kDirections * gates, shape.in + 1}, input);
  pass.d_map_transposed.copy_(pass.d_map.t());
  fit(pass.d_prev_transposed, {h, shape.in + 1}, input);
  net.backend().product(pass.d_prev_transposed, p.block(kInput), pass.d_map_transposed);
  at::Tensor(gradients.block(kPrev)).copy_(pass.d_prev_transposed.t());
  for (const BlockIndex bias : {kInputBias, kRecurrentBias})
    at::Tensor(gradients.block(bias)).copy_(pass.d_map.select(0, shape.in));
}

void backward_input(const BicnetNet& net, const BicnetMaps& maps, const at::Tensor& d_output,
                    BicnetPass& pass, std::int64_t first, std::int64_t count, at::Tensor& d_columns) {
  back_to_gates(net, maps, d_output, pass, nullptr);
  fit(d_columns, {kTeamSize, d_output.size(1), count}, d_output);
  at::Tensor rows = rows_of(d_columns);
  at::mm_out(rows, rows_of(pass.gates), maps.input.narrow(0, first, count).t());
}

}  // namespace snake_ddp::nets
