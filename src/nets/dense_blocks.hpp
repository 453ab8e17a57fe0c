// The order of a DenseNet's parameters in memory, for the files that compute with them. Both first weights are stored
// transposed.
#pragma once

#include <cstddef>

namespace snake_ddp::nets {

enum DenseBlock : std::size_t {
  kPrev,         // [in + 1, hidden], the last row is the bias
  kPost0Weight,  // [hidden, hidden]
  kPost0Bias,
  kPost2Weight,  // [out, hidden]
  kPost2Bias,
  kNormWeight,  // with layer norm only
  kNormBias
};

}  // namespace snake_ddp::nets
