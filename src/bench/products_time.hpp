// What matrix products take alone: the bound of everything that consists of them.
#pragma once

#include <functional>
#include <vector>

#include "update_products.hpp"

namespace snake_ddp::bench {

/// The median over repetitions of a call, in microseconds, for about `seconds` and at least five calls.
double median_us(double seconds, const std::function<void()>& call);

/// Microseconds of all products, each alone and with its operands in cache: by the faster routine, and by the library's.
struct ProductsTime {
  double fastest = 0, library = 0;
};
ProductsTime time_of(double seconds, const std::vector<Product>& products);

}  // namespace snake_ddp::bench
