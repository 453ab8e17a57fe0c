// The matrix products of a learner's update, as shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "snake_ddp/learners/registry.hpp"

namespace snake_ddp::learners {
class Learner;
}

namespace snake_ddp::bench {

/// [m, p] x [p, n], so many times. The left factor may lie as [p, m].
struct Product {
  std::int64_t times, m, n, p;
  bool left_transposed;
};

/// All products of an update from so many transitions.
std::vector<Product> products_of(const learners::LearnerOptions& options, learners::Learner& learner,
                                 std::int64_t batch);

}  // namespace snake_ddp::bench
