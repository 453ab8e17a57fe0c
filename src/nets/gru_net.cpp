#include "nets/gru_net.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "activations.hpp"
#include "fit.hpp"
#include "layers.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::nets {
namespace {

// Weights are stored as [inputs, outputs], except the last one: so the products read adjacent columns.
enum : std::size_t { kFirst, kFirstBias, kInput, kState, kInputBias, kStateBias, kLast, kLastBias };

// The least number of rows per thread.
constexpr std::int64_t kGrain = 32;

std::vector<Block> blocks_of(const GruShape& s) {
  return {{s.in, s.hidden},  {s.hidden, 0},     {s.hidden, 3 * s.hidden}, {s.hidden, 3 * s.hidden},
          {3 * s.hidden, 0}, {3 * s.hidden, 0}, {s.out, s.hidden},        {s.out, 0}};
}

at::Tensor rows_of(const at::Tensor& t) { return t.view({-1, t.size(-1)}); }

// What the unit reads and writes in one step.
struct Step {
  at::Tensor gates, recurrent;  // as in GruPass, [R, 3 hidden], [R, hidden]
  at::Tensor before, after;     // [R, hidden]
  at::Tensor valid;             // [R, 1]
};

// Step t, of which `pass` has these at `place`.
Step step_of(const GruPass& pass, const at::Tensor& valid, std::int64_t t, std::int64_t place) {
  return {pass.gates[place], pass.recurrent[place], pass.states[t], pass.states[t + 1], valid[t]};
}

// The columns of reset and update gate, and those of the candidate.
at::Tensor gate_part(const at::Tensor& gates) { return gates.narrow(1, 0, gates.size(1) / 3 * 2); }
at::Tensor candidate_part(const at::Tensor& gates) {
  return gates.narrow(1, gates.size(1) / 3 * 2, gates.size(1) / 3);
}

// The row of one step. The pointers do not alias, which the compiler must know to keep several columns in flight.
void row_forward(std::int64_t width, const float* __restrict input_bias, const float* __restrict state_bias,
                 const float* __restrict before, float valid, float* __restrict reset,
                 float* __restrict update, float* __restrict candidate, float* __restrict recurrent,
                 float* __restrict after) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float r = sigmoid_of(reset[j] + (input_bias[j] + state_bias[j]));
    const float z = sigmoid_of(update[j] + (input_bias[width + j] + state_bias[width + j]));
    const float u = recurrent[j] + state_bias[2 * width + j];
    const float n = tanh_of(candidate[j] + input_bias[2 * width + j] + r * u);
    reset[j] = r;
    update[j] = z;
    candidate[j] = n;
    recurrent[j] = u;
    after[j] = valid * (n + z * (before[j] - n));
  }
}

// From d, the gradient at the state after the step: those before the gates' activations, of the input's part and of the
// state's part of the candidate, in place; and what reaches the state before past all gates is added to d_before.
void row_backward(std::int64_t width, const float* __restrict before, float valid, const float* __restrict d,
                  float* __restrict reset, float* __restrict update, float* __restrict candidate,
                  float* __restrict recurrent, float* __restrict d_before) {
  for (std::int64_t j = 0; j < width; ++j) {
    const float r = reset[j], z = update[j], n = candidate[j], d_after = valid * d[j];
    const float d_candidate = d_after * (1.0F - z) * (1.0F - n * n);
    reset[j] = d_candidate * recurrent[j] * r * (1.0F - r);
    update[j] = d_after * (before[j] - n) * z * (1.0F - z);
    candidate[j] = d_candidate;
    recurrent[j] = d_candidate * r;
    d_before[j] += d_after * z;
  }
}

// Calls row(r, valid, reset, update, candidate, recurrent, before) for each row; threads share them.
template <class Row>
void for_rows(const Step& step, const Row& row) {
  const std::int64_t width = step.before.size(1);
  float *gates = step.gates.data_ptr<float>(), *recurrent = step.recurrent.data_ptr<float>();
  const float *before = step.before.data_ptr<float>(), *valid = step.valid.data_ptr<float>();
  at::parallel_for(0, step.before.size(0), kGrain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) {
      float* gate = gates + r * 3 * width;
      row(r * width, valid[r], gate, gate + width, gate + 2 * width, recurrent + r * width,
          before + r * width);
    }
  });
}

// The gates hold products before the call, activations after; so does `recurrent`. Fills step.after.
void unit_forward(const FlatParameters& p, const Step& step) {
  const std::int64_t width = step.before.size(1);
  const float *of_input = p.block(kInputBias).data_ptr<float>(),
              *of_state = p.block(kStateBias).data_ptr<float>();
  float* after = step.after.data_ptr<float>();
  for_rows(step, [&](std::int64_t at, float valid, float* reset, float* update, float* candidate,
                     float* recurrent, const float* before) {
    row_forward(width, of_input, of_state, before, valid, reset, update, candidate, recurrent, after + at);
  });
}

void unit_backward(const Step& step, const at::Tensor& d_after, const at::Tensor& d_before) {
  const std::int64_t width = step.before.size(1);
  const float* d = d_after.data_ptr<float>();
  float* to = d_before.data_ptr<float>();
  for_rows(step, [&](std::int64_t at, float valid, float* reset, float* update, float* candidate,
                     float* recurrent, const float* before) {
    row_backward(width, before, valid, d + at, reset, update, candidate, recurrent, to + at);
  });
}

// A GRU's step by ATen's operators: for any device, and as the tests' oracle.
void plain_unit_forward(const FlatParameters& p, const Step& step) {
  const at::Tensor bias = p.block(kStateBias).unsqueeze(0), gates = gate_part(step.gates);
  const at::Tensor n = candidate_part(step.gates), u = step.recurrent;
  step.gates.add_(p.block(kInputBias));
  gates.add_(gate_part(bias)).sigmoid_();
  u.add_(candidate_part(bias));
  const auto parts = gates.chunk(2, 1);
  n.addcmul_(parts[0], u).tanh_();
  // (1 - z) n + z h
  at::Tensor after = step.after;
  at::addcmul_out(after, n, parts[1], step.before - n).mul_(step.valid);
}

void plain_unit_backward(const Step& step, const at::Tensor& d_after, const at::Tensor& d_before) {
  const auto parts = step.gates.chunk(3, 1);
  const at::Tensor r = parts[0].clone(), z = parts[1].clone(), n = parts[2].clone(), d = d_after * step.valid;
  const at::Tensor d_candidate = d * (1 - z) * (1 - n.square());
  at::Tensor(parts[0]).copy_(d_candidate * step.recurrent * r * (1 - r));
  at::Tensor(parts[1]).copy_(d * (step.before - n) * z * (1 - z));
  at::Tensor(parts[2]).copy_(d_candidate);
  at::Tensor(step.recurrent).copy_(d_candidate * r);
  at::Tensor(d_before).addcmul_(d, z);
}

}  // namespace

GruNet::GruNet(GruShape shape, at::Device device, std::string name, bool by_library)
    : Net(shape, blocks_of(shape), device, by_library), name_(std::move(name)) {}

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
  const bool library = net.by_library();
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
  const auto unit = library ? plain_unit_forward : unit_forward;
  for (std::int64_t t = 0; t < steps; ++t) {
    const std::int64_t place = keep && t > from ? t - from : 0;
    const Step now = step_of(pass, valid, t, place);
    const at::Tensor first = pass.first[place];
    sparse_product(library, first, input[t].narrow(1, 0, s.in), p.block(kFirst));
    bias_relu(library, first, p.block(kFirstBias));
    product(library, now.gates, first, p.block(kInput));
    if (t == 0) state.defined() ? now.before.copy_(state) : now.before.zero_();
    if (t > 0 || state.defined()) {
      product(library, gate_part(now.gates), now.before, to_gates, /*add=*/true);
      product(library, now.recurrent, now.before, to_candidate);
    } else {
      now.recurrent.zero_();
    }
    unit(p, now);
  }
  few_outputs(library, rows_of(pass.states.narrow(0, from + 1, steps - from)), p.block(kLast),
              p.block(kLastBias), rows_of(pass.output));
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
  const bool library = net.by_library();
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
  few_outputs_back(library, learned(pass.states, first + 1), p.block(kLast), rows_of(d_output), d_after,
                   gradients.block(kLast), gradients.block(kLastBias));
  const at::Tensor to_state = transposed(library, p.block(kState), pass.transposed);
  const auto unit = library ? plain_unit_backward : unit_backward;
  for (std::int64_t t = last; t >= first; --t) {
    const Step now = step_of(pass, valid, t, t - first);
    const at::Tensor d_before = pass.d_states[t - first];
    unit(now, pass.d_states[t - first + 1], d_before);
    if (t == first) break;
    product(library, d_before, gate_part(now.gates), to_state.narrow(0, 0, 2 * h), /*add=*/true);
    product(library, d_before, now.recurrent, to_state.narrow(0, 2 * h, h), /*add=*/true);
  }
  const at::Tensor d_input = learned(pass.gates, 0), d_recurrent = learned(pass.recurrent, 0);
  const at::Tensor before = learned(pass.states, first).t(), of_state = gradients.block(kState);
  product(library, gate_part(of_state), before, gate_part(d_input));
  product(library, candidate_part(of_state), before, d_recurrent);
  at::Tensor input_bias = gradients.block(kInputBias), state_bias = gradients.block(kStateBias);
  at::sum_out(input_bias, d_input, {0});
  state_bias.copy_(input_bias);
  at::Tensor of_candidate = state_bias.narrow(0, 2 * h, h);
  at::sum_out(of_candidate, d_recurrent, {0});
  const at::Tensor first_layer = learned(pass.first, 0);
  product(library, gradients.block(kInput), first_layer.t(), d_input);
  // The states' gradients are done with.
  product(library, d_after, d_input, transposed(library, p.block(kInput), pass.transposed));
  at::Tensor first_bias = gradients.block(kFirstBias);
  norm_relu_back(library, {}, {first_layer, first_layer, {}, {}}, d_after, first_bias.zero_(), {});
  sparse_product(library, gradients.block(kFirst), learned(input, first).narrow(1, 0, s.in).t(), d_after);
}

}  // namespace snake_ddp::nets
