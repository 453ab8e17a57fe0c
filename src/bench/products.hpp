// Matrix products as shapes, and what they take alone: the bound of everything that consists of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "snake_ddp/learners/registry.hpp"
#include "snake_ddp/nets/mask_predictor.hpp"
#include "snake_ddp/nets/tokenizer.hpp"

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

/// Those of pretraining's stages that the result depends on. A missing node, an unseen place in the encoder and a place in
/// the decoder's last layer that is not to be predicted need none. Attention's own, among a sample's few rows, are not counted.
/// Tokens of so many graphs that have so many nodes together; with `learns`, the decoder and the backward pass, too.
std::vector<Product> tokenizer_products(const nets::TokenizerShape& shape, std::int64_t graphs,
                                        std::int64_t nodes, bool learns);
/// Predictions for `asked` places of so many samples, of whose places `seen` are; with `learns`, the backward pass, too.
std::vector<Product> mask_predictor_products(const nets::MaskPredictorShape& shape, std::int64_t samples,
                                             std::int64_t seen, std::int64_t asked, bool learns);

/// The median over repetitions of a call, in microseconds, for about `seconds` and at least five calls.
double median_us(double seconds, const std::function<void()>& call);

/// Microseconds of all products, each alone and with its operands in cache: by the faster routine, and by the library's.
struct ProductsTime {
  double fastest = 0, library = 0;
};
ProductsTime time_of(double seconds, const std::vector<Product>& products);

}  // namespace snake_ddp::bench
