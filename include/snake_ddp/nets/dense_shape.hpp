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
  bool layer_norm = false;  // before the ReLU; ours, off in the reference
};

/// The parameters, or their gradients, in main memory; each block is contiguous. Both first weights are transposed.
struct DenseBlocks {
  float* prev;                     // [in + 1, hidden], the last row is the bias
  float* post0_weight;             // [hidden, hidden]
  float* post0_bias;               // [hidden]
  float* post2_weight;             // [out, hidden]
  float* post2_bias;               // [out]
  float *norm_weight, *norm_bias;  // [hidden], with layer norm only
};

/// FoldedGradient in main memory.
struct FoldedBlocks {
  std::int64_t width;
  float* map;          // [in + 1, width]
  float* last_weight;  // [out, width]
  float* last_bias;    // [out]
  float* norm;         // [2, width], with layer norm only
};

}  // namespace snake_ddp::nets
