// Takes a network's weights one after the other, as they were listed.
#pragma once

#include <cstddef>

#include "nets/leaves.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::nets {

class WeightReader {
 public:
  explicit WeightReader(const Weights& weights) : weights_(weights) {}
  const at::Tensor& next() { return weights_.at(at_++); }
  void check_end() const {
    SD_CHECK(at_ == weights_.size(), "all of a network's tensors must be read; read: " + std::to_string(at_));
  }

 private:
  const Weights& weights_;
  std::size_t at_ = 0;
};

}  // namespace snake_ddp::nets
