// The shape of a dense actor or critic.
#pragma once

#include <cstdint>
#include <string>

namespace snake_ddp::nets {

/// What is applied to the last layer's output.
enum class Head { kIdentity, kSoftmax, kTanh };

/// Throws  UsageError for anything but "softmax" and "tanh".
Head head_from_name(const std::string& name);

struct DenseShape {
  std::int64_t in = 0;  // features, without the constant
  std::int64_t hidden = 256;
  std::int64_t out = 1;
  Head head = Head::kIdentity;
  bool layer_norm = false;   // before the ReLU; ours, off in the reference
  std::int64_t actions = 0;  // a critic's further inputs
};

}  // namespace snake_ddp::nets
