// Parameters as separate tensors with automatic differentiation, and PyTorch's operations on them: the oracle of the
// flat ones.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "nets/flat_parameters.hpp"

namespace snake_ddp::tests {

struct PlainParameters {
  std::vector<at::Tensor> p, m, v;  // p in the order of names

  explicit PlainParameters(const nets::NamedTensors& named) {
    for (const auto& [name, tensor] : named) {
      p.push_back(tensor.clone(at::MemoryFormat::Contiguous).set_requires_grad(true));
      m.push_back(at::zeros_like(p.back()));
      v.push_back(at::zeros_like(p.back()));
    }
  }
  void clear() {
    for (at::Tensor& t : p) t.mutable_grad().reset();
  }
  // torch.nn.utils.clip_grad_norm_ and torch.optim.Adam, tensor by tensor.
  void step(double lr, int t) {
    double squares = 0;
    for (const at::Tensor& x : p) squares += std::pow(x.grad().norm().item<double>(), 2);
    const double factor = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const at::Tensor g = p[i].grad() * factor;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const at::Tensor change =
          lr * (m[i] / (1 - std::pow(0.9, t))) / ((v[i] / (1 - std::pow(0.999, t))).sqrt() + 1e-8);
      p[i] = (p[i].detach() - change).set_requires_grad(true);
    }
  }
  void follow(const PlainParameters& online, double tau) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = ((1 - tau) * p[i] + tau * online.p[i]).detach();
  }
  void compare(const nets::NamedTensors& named) const {
    REQUIRE(named.size() == p.size());
    for (std::size_t i = 0; i < named.size(); ++i) {
      CAPTURE(named[i].first);
      CHECK((named[i].second - p[i].detach()).abs().max().item<double>() < 2e-5);
    }
  }
};

}  // namespace snake_ddp::tests
