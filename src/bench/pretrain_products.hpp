// The matrix products of pretraining's stages: those that the result depends on. A missing node, an unseen place in the
// encoder and a place in the decoder's last layer that is not to be predicted need none. Attention's own, among a sample's few rows,
// are not counted.
#pragma once

#include "snake_ddp/nets/mask_predictor.hpp"
#include "snake_ddp/nets/tokenizer.hpp"
#include "update_products.hpp"

namespace snake_ddp::bench {

/// Tokens of so many graphs that have so many nodes together; with `learns`, the decoder and the backward pass, too.
std::vector<Product> tokenizer_products(const nets::TokenizerShape& shape, std::int64_t graphs,
                                        std::int64_t nodes, bool learns);

/// Predictions for `asked` places of so many samples, of whose places `seen` are; with `learns`, the backward pass, too.
std::vector<Product> mask_predictor_products(const nets::MaskPredictorShape& shape, std::int64_t samples,
                                             std::int64_t seen, std::int64_t asked, bool learns);

}  // namespace snake_ddp::bench
