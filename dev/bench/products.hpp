// Matrix products as shapes, and what they take alone: the bound of everything that consists of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "learners/registry.hpp"

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

/// The median over repetitions of a call, in microseconds, for about `seconds` and at least five calls.
double median_us(double seconds, const std::function<void()>& call);

/// Microseconds of all products, each alone and with its operands in cache: by the faster routine, and by the library's.
struct ProductsTime {
  double fastest = 0, library = 0;
};
ProductsTime time_of(double seconds, const std::vector<Product>& products);

}  // namespace snake_ddp::bench
