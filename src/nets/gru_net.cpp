#include "nets/gru_net.hpp"

#include <ATen/ATen.h>

#include "fit.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::nets {
namespace {

// Weights are stored as [inputs, outputs], except the last one: so the products read adjacent columns.
enum : std::size_t { kFirst, kFirstBias, kInput, kState, kInputBias, kStateBias, kLast, kLastBias };

std::vector<Block> blocks_of(const GruShape& s) {
  return {{s.in, s.hidden},  {s.hidden, 0},     {s.hidden, 3 * s.hidden}, {s.hidden, 3 * s.hidden},
          {3 * s.hidden, 0}, {3 * s.hidden, 0}, {s.out, s.hidden},        {s.out, 0}};
}

at::Tensor rows_of(const at::Tensor& t) { return t.view({-1, t.size(-1)}); }

// Step t, of which `pass` has these at `place`.
GruStep step_of(const GruPass& pass, const at::Tensor& valid, std::int64_t t, std::int64_t place) {
  return {pass.gates[place], pass.recurrent[place], pass.states[t], pass.states[t + 1], valid[t]};
}

}  // namespace

GruNet::GruNet(GruShape shape, at::Device device, std::string name, const Backend* backend)
    : Net(shape, blocks_of(shape), device, backend), name_(std::move(name)) {}

void GruNet::init(std::uint64_t seed) {
  std::vector<std::pair<at::Tensor, std::int64_t>> parts;
  for (const auto& [name, view] : named())
    parts.emplace_back(view, name.starts_with(name_ + ".0.") ? shape().in : shape().hidden);
  draw_weights(seed, parts);
}

NamedTensors GruNet::named_views(const FlatParameters& of) const {
  return {{name_ + ".0.weight", of.block(kFirst).t()}, {name_ + ".0.bias", of.block(kFirstBias)},
          {"gru.weight_ih", of.block(kInput).t()},     {"gru.weight_hh", of.block(kState).t()},
          {"gru.bias_ih", of.block(kInputBias)},       {"gru.bias_hh", of.block(kStateBias)},
          {name_ + ".1.weight", of.block(kLast)},      {name_ + ".1.bias", of.block(kLastBias)}};
}

bool is_gru_net(const NamedTensors& weights) { return find(weights, "gru.weight_ih") != nullptr; }

GruShape gru_shape_of(const NamedTensors& weights, const std::string& name, const std::string& what) {
  const at::Tensor& first = matrix_of(weights, name + ".0.weight", what);
  return {first.size(1), first.size(0), matrix_of(weights, name + ".1.weight", what).size(0)};
}

void forward(const GruNet& net, const at::Tensor& input, const at::Tensor& state, const at::Tensor& valid,
             GruPass& pass, std::int64_t from, bool keep) {
  const GruShape& s = net.shape();
  const FlatParameters& p = net.parameters();
  const Backend& by = net.backend();
  const std::int64_t steps = input.size(0), rows = input.size(1), h = s.hidden;
  // All other steps share a place: it stays in cache.
  const std::int64_t places = keep ? steps - from : 1;
  pass.from = from;
  fit(pass.first, {places, rows, h}, input);
  fit(pass.gates, {places, rows, 3 * h}, input);
  fit(pass.recurrent, {places, rows, h}, input);
  fit(pass.states, {steps + 1, rows, h}, input);
  fit(pass.output, {steps - from, rows, s.out}, input);
  const at::Tensor to_gates = gate_part(p.block(kState)), to_candidate = candidate_part(p.block(kState));
  for (std::int64_t t = 0; t < steps; ++t) {
    const std::int64_t place = keep && t > from ? t - from : 0;
    const GruStep now = step_of(pass, valid, t, place);
    const at::Tensor first = pass.first[place];
    by.sparse_product(first, input[t].narrow(1, 0, s.in), p.block(kFirst));
    by.bias_relu(first, p.block(kFirstBias));
    by.product(now.gates, first, p.block(kInput));
    if (t == 0) state.defined() ? now.before.copy_(state) : now.before.zero_();
    if (t > 0 || state.defined()) {
      by.product(gate_part(now.gates), now.before, to_gates, /*add=*/true);
      by.product(now.recurrent, now.before, to_candidate);
    } else {
      now.recurrent.zero_();
    }
    by.gru_step(p.block(kInputBias), p.block(kStateBias), now);
  }
  by.few_outputs(rows_of(pass.states.narrow(0, from + 1, steps - from)), p.block(kLast), p.block(kLastBias),
                 rows_of(pass.output));
}

void step(const GruNet& net, const at::Tensor& observations, at::Tensor& memory, GruPass& pass) {
  const std::int64_t rows = observations.size(0) * observations.size(1);
  forward(net, observations.reshape({1, rows, net.shape().in + 1}),
          memory.view({rows, net.shape().hidden}).to(observations.device()),
          at::ones({1, rows, 1}, observations.options()), pass);
  memory.copy_(pass.states[1].view(memory.sizes()));
}

void backward(const GruNet& net, const at::Tensor& input, const at::Tensor& valid, GruPass& pass,
              std::int64_t last, const at::Tensor& d_output, FlatParameters& gradients) {
  const GruShape& s = net.shape();
  const FlatParameters& p = net.parameters();
  const Backend& by = net.backend();
  const std::int64_t first = pass.from, rows = input.size(1), steps = last - first + 1, h = s.hidden;
  const auto learned = [&](const at::Tensor& all, std::int64_t from) {
    return rows_of(all.narrow(0, from, steps));
  };
  SD_CHECK(d_output.size(0) == steps && pass.gates.size(0) >= steps,
           "backward needs one gradient for each step that forward kept");
  // dL/d(state) before the first of the steps, which nothing reads, and after each.
  fit(pass.d_states, {steps + 1, rows, h}, input);
  at::Tensor d_after = rows_of(pass.d_states.narrow(0, 1, steps));
  pass.d_states[0].zero_();
  by.few_outputs_back(learned(pass.states, first + 1), p.block(kLast), rows_of(d_output), d_after,
                      gradients.block(kLast), gradients.block(kLastBias));
  const at::Tensor to_state = by.transposed(p.block(kState), pass.transposed);
  for (std::int64_t t = last; t >= first; --t) {
    const GruStep now = step_of(pass, valid, t, t - first);
    const at::Tensor d_before = pass.d_states[t - first];
    by.gru_step_back(now, pass.d_states[t - first + 1], d_before);
    if (t == first) break;
    by.product(d_before, gate_part(now.gates), to_state.narrow(0, 0, 2 * h), /*add=*/true);
    by.product(d_before, now.recurrent, to_state.narrow(0, 2 * h, h), /*add=*/true);
  }
  const at::Tensor d_input = learned(pass.gates, 0), d_recurrent = learned(pass.recurrent, 0);
  const at::Tensor before = learned(pass.states, first).t(), of_state = gradients.block(kState);
  by.product(gate_part(of_state), before, gate_part(d_input));
  by.product(candidate_part(of_state), before, d_recurrent);
  at::Tensor input_bias = gradients.block(kInputBias), state_bias = gradients.block(kStateBias);
  at::sum_out(input_bias, d_input, {0});
  state_bias.copy_(input_bias);
  at::Tensor of_candidate = state_bias.narrow(0, 2 * h, h);
  at::sum_out(of_candidate, d_recurrent, {0});
  const at::Tensor first_layer = learned(pass.first, 0);
  by.product(gradients.block(kInput), first_layer.t(), d_input);
  // The states' gradients are done with.
  by.product(d_after, d_input, by.transposed(p.block(kInput), pass.transposed));
  at::Tensor first_bias = gradients.block(kFirstBias);
  by.norm_relu_back({}, {first_layer, first_layer, {}, {}}, d_after, first_bias.zero_(), {});
  by.sparse_product(gradients.block(kFirst), learned(input, first).narrow(1, 0, s.in).t(), d_after);
}

}  // namespace snake_ddp::nets
