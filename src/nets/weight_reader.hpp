// Takes a network's weights one after the other, as they were listed.
#pragma once

#include <cstddef>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/nets/leaves.hpp"

namespace snake_ddp::nets {

class WeightReader {
 public:
  explicit WeightReader(const Weights& weights) : weights_(weights) {}
  const at::Tensor& next() { return weights_.at(at_++); }
  void check_end() const { SD_CHECK(at_ == weights_.size(), "the network's blocks"); }

 private:
  const Weights& weights_;
  std::size_t at_ = 0;
};

}  // namespace snake_ddp::nets
