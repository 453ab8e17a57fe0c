#include "snake_ddp/nets/gru_net.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::nets {
namespace {

enum : std::size_t { kFirst, kFirstBias, kInput, kState, kInputBias, kStateBias, kLast, kLastBias, kBlocks };

std::vector<Block> blocks_of(const GruShape& s) {
  return {{s.hidden, s.in},  {s.hidden, 0},     {3 * s.hidden, s.hidden}, {3 * s.hidden, s.hidden},
          {3 * s.hidden, 0}, {3 * s.hidden, 0}, {s.out, s.hidden},        {s.out, 0}};
}

at::Tensor block(const FlatParameters& of, std::size_t i) { return of.block(i); }

}  // namespace

GruNet::GruNet(GruShape shape, at::Device device, std::string name)
    : shape_(shape), parameters_(blocks_of(shape), device), name_(std::move(name)) {}

void GruNet::init(std::uint64_t seed) {
  const c10::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::int64_t inputs = i == kFirst || i == kFirstBias ? shape_.in : shape_.hidden;
    const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
    at::Tensor drawn = at::empty(parameters_.block(i).sizes(), at::kFloat);
    drawn.uniform_(-bound, bound, generator);
    block(parameters_, i).copy_(drawn);
  }
}

NamedTensors GruNet::named_views(const FlatParameters& of) const {
  return {{name_ + ".0.weight", of.block(kFirst)}, {name_ + ".0.bias", of.block(kFirstBias)},
          {"gru.weight_ih", of.block(kInput)},     {"gru.weight_hh", of.block(kState)},
          {"gru.bias_ih", of.block(kInputBias)},   {"gru.bias_hh", of.block(kStateBias)},
          {name_ + ".1.weight", of.block(kLast)},  {name_ + ".1.bias", of.block(kLastBias)}};
}

bool is_gru_net(const NamedTensors& weights) {
  return std::any_of(weights.begin(), weights.end(),
                     [](const auto& item) { return item.first == "gru.weight_ih"; });
}

GruShape gru_shape_of(const NamedTensors& weights, const std::string& name, const std::string& what) {
  const auto matrix = [&](const std::string& layer) {
    const std::string wanted = fmt::format("{}.{}.weight", name, layer);
    const auto found =
        std::find_if(weights.begin(), weights.end(), [&](const auto& item) { return item.first == wanted; });
    if (found == weights.end() || found->second.dim() != 2) {
      throw base::FileError(
          fmt::format("{} has no matrix \"{}\": it is a different kind of network", what, wanted));
    }
    return found->second;
  };
  return {matrix("0").size(1), matrix("0").size(0), matrix("1").size(0)};
}

void forward(const GruNet& net, const at::Tensor& input, const at::Tensor& state, const at::Tensor& there,
             GruPass& pass) {
  const GruShape& s = net.shape();
  const FlatParameters& p = net.parameters();
  const std::int64_t steps = input.size(0), rows = input.size(1);
  pass.first = at::addmm(p.block(kFirstBias), input.view({steps * rows, s.in + 1}).narrow(1, 0, s.in),
                         p.block(kFirst).t())
                   .relu_();
  const at::Tensor of_input =
      at::addmm(p.block(kInputBias), pass.first, p.block(kInput).t()).view({steps, rows, 3 * s.hidden});
  const at::Tensor recurrent = p.block(kState).t();
  pass.steps.resize(static_cast<std::size_t>(steps));
  std::vector<at::Tensor> states;
  at::Tensor now = state;
  for (std::int64_t t = 0; t < steps; ++t) {
    GruPass::Step& step = pass.steps[static_cast<std::size_t>(t)];
    const at::Tensor of_state = at::addmm(p.block(kStateBias), now, recurrent), x = of_input[t];
    const at::Tensor gates = (x.narrow(1, 0, 2 * s.hidden) + of_state.narrow(1, 0, 2 * s.hidden)).sigmoid_();
    step.before = now;
    step.reset = gates.narrow(1, 0, s.hidden);
    step.update = gates.narrow(1, s.hidden, s.hidden);
    step.recurrent = of_state.narrow(1, 2 * s.hidden, s.hidden);
    step.candidate = at::addcmul(x.narrow(1, 2 * s.hidden, s.hidden), step.reset, step.recurrent).tanh_();
    // (1 - z) n + z h
    step.after = at::addcmul(step.candidate, step.update, now - step.candidate).mul_(there[t]);
    now = step.after;
    states.push_back(now);
  }
  pass.output = at::addmm(p.block(kLastBias), at::cat(states), p.block(kLast).t()).view({steps, rows, s.out});
}

void step(const GruNet& net, const at::Tensor& observations, at::Tensor& memory, GruPass& pass) {
  const std::int64_t rows = observations.size(0) * observations.size(1);
  forward(net, observations.reshape({1, rows, net.shape().in + 1}),
          memory.view({rows, net.shape().hidden}).to(observations.device()),
          at::ones({1, rows, 1}, observations.options()), pass);
  memory.copy_(pass.steps[0].after.view(memory.sizes()));
}

void backward(const GruNet& net, const at::Tensor& input, const at::Tensor& there, const GruPass& pass,
              std::int64_t first, std::int64_t last, const at::Tensor& d_output, FlatParameters& gradients) {
  const GruShape& s = net.shape();
  const FlatParameters& p = net.parameters();
  const std::int64_t rows = input.size(1), steps = last - first + 1;
  const at::Tensor d_out = d_output.reshape({steps * rows, s.out});
  std::vector<at::Tensor> befores, afters;
  for (std::int64_t t = first; t <= last; ++t) {
    befores.push_back(pass.steps[static_cast<std::size_t>(t)].before);
    afters.push_back(pass.steps[static_cast<std::size_t>(t)].after);
  }
  block(gradients, kLast).copy_(at::mm(d_out.t(), at::cat(afters)));
  block(gradients, kLastBias).copy_(d_out.sum(0));

  const at::Tensor from_above = at::mm(d_out, p.block(kLast)).view({steps, rows, s.hidden});
  // Gradients before the gates' activations: of the input's part, and of the state's.
  at::Tensor d_input = at::empty({steps, rows, 3 * s.hidden}, from_above.options());
  at::Tensor d_state = at::empty_like(d_input);
  at::Tensor carried = at::zeros({rows, s.hidden}, from_above.options());
  for (std::int64_t t = last; t >= first; --t) {
    const GruPass::Step& step = pass.steps[static_cast<std::size_t>(t)];
    const at::Tensor d = (from_above[t - first] + carried).mul_(there[t]);
    const at::Tensor d_candidate = d * (1 - step.update) * (1 - step.candidate.square());
    const at::Tensor d_reset = d_candidate * step.recurrent * step.reset * (1 - step.reset);
    const at::Tensor d_update = d * (step.before - step.candidate) * step.update * (1 - step.update);
    at::Tensor of_input = d_input[t - first], of_state = d_state[t - first];
    at::cat_out(of_input, {d_reset, d_update, d_candidate}, 1);
    at::cat_out(of_state, {d_reset, d_update, d_candidate * step.reset}, 1);
    carried = at::addmm(d * step.update, of_state, p.block(kState));
  }
  d_input = d_input.view({steps * rows, 3 * s.hidden});
  d_state = d_state.view({steps * rows, 3 * s.hidden});
  const at::Tensor first_layer = pass.first.narrow(0, first * rows, steps * rows);
  block(gradients, kState).copy_(at::mm(d_state.t(), at::cat(befores)));
  block(gradients, kStateBias).copy_(d_state.sum(0));
  block(gradients, kInput).copy_(at::mm(d_input.t(), first_layer));
  block(gradients, kInputBias).copy_(d_input.sum(0));
  const at::Tensor d_first = at::mm(d_input, p.block(kInput)).mul_(first_layer.gt(0));
  const at::Tensor seen = input.narrow(0, first, steps).reshape({steps * rows, s.in + 1}).narrow(1, 0, s.in);
  block(gradients, kFirst).copy_(at::mm(d_first.t(), seen));
  block(gradients, kFirstBias).copy_(d_first.sum(0));
}

}  // namespace snake_ddp::nets
