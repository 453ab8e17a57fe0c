// Reading recorded updates.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/flat_parameters.hpp"

namespace recorded {

using namespace snake_ddp;

inline io::NamedTensors part(const io::NamedTensors& all, const std::string& prefix) {
  io::NamedTensors out;
  for (const auto& [name, tensor] : all) {
    if (name.rfind(prefix, 0) == 0) out.emplace_back(name.substr(prefix.size()), tensor);
  }
  REQUIRE_FALSE(out.empty());
  return out;
}

inline at::Tensor one(const io::NamedTensors& all, const std::string& wanted) {
  for (const auto& [name, tensor] : all) {
    if (name == wanted) return tensor;
  }
  FAIL("the recording has no " + wanted);
  return {};
}

inline at::Tensor with_one(const at::Tensor& features) {
  return at::cat({features, at::ones({features.size(0), 3, 1})}, 2);
}

/// The settings of record_dqn.py.
inline learners::LearnerOptions dqn_options(const std::string& algo) {
  learners::LearnerOptions options;
  options.algo = algo;
  options.features = 41;
  options.hidden_size = 32;
  options.layer_norm = true;
  options.c_lr = 4e-4;
  options.max_grad_norm = 0.5;
  return options;
}

/// The batch of its update `u`.
inline learners::Batch dqn_batch(const io::NamedTensors& recording, int u) {
  const auto now = part(recording, "update" + std::to_string(u) + ".");
  const auto of = [&](const std::string& name) { return one(now, name).contiguous(); };
  return {{with_one(of("state")), of("action"), of("reward"), with_one(of("next_state")), of("discount"),
           of("next_moves")}};
}

inline void require_near(const nets::NamedTensors& got, const io::NamedTensors& expected,
                         double tolerance = 1e-5) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    const auto found =
        std::find_if(got.begin(), got.end(), [&, n = name](const auto& item) { return item.first == n; });
    REQUIRE(found != got.end());
    REQUIRE(found->second.sizes() == tensor.sizes());
    CHECK((found->second - tensor).abs().max().item<double>() <
          tolerance * tensor.abs().max().item<double>());
  }
}

}  // namespace recorded
