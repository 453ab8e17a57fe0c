#include "products.hpp"

namespace snake_ddp::bench {
namespace {

constexpr std::int64_t kTokenizerLayers = 2, kTokenizerDecoder = 128, kWiderBetween = 4;

// A layer from `in` to `out` for so many rows, and its way back.
void add_layer(std::vector<Product>& all, std::int64_t rows, std::int64_t in, std::int64_t out, bool learns,
               bool has_before = true) {
  if (rows == 0) return;
  all.push_back({1, rows, out, in, false});
  if (!learns) return;
  if (has_before) all.push_back({1, rows, in, out, false});
  // The gradient of the weights, or of their transpose where that is as narrow as the four features of a node.
  const bool narrow = in < 16;
  all.push_back({1, narrow ? in : out, narrow ? out : in, rows, true});
}

}  // namespace

std::vector<Product> tokenizer_products(const nets::TokenizerShape& s, std::int64_t graphs,
                                        std::int64_t nodes, bool learns) {
  std::vector<Product> all;
  const std::int64_t width = s.tokens * s.code_size;
  add_layer(all, nodes, s.features, s.hidden, learns, /*has_before=*/false);
  for (std::int64_t l = 0; l < kTokenizerLayers; ++l) {
    add_layer(all, nodes, 2 * s.hidden, s.hidden, learns);  // a node's own values and its neighbours' mean
    add_layer(all, graphs, s.hidden, s.hidden, learns);     // the mean of all nodes
  }
  add_layer(all, graphs, s.nodes * s.hidden, width, learns);
  all.push_back({s.tokens, graphs, s.codes, s.code_size, false});  // distances to codes
  if (!learns) return all;
  add_layer(all, graphs, width, kTokenizerDecoder, learns);
  add_layer(all, graphs, kTokenizerDecoder, s.nodes * s.features, learns);
  return all;
}

std::vector<Product> mask_predictor_products(const nets::MaskPredictorShape& s, std::int64_t samples,
                                             std::int64_t seen, std::int64_t asked, bool learns) {
  std::vector<Product> all;
  const std::int64_t h = s.hidden;
  // The norm, a projection of those who ask and one of those asked, the way out.
  const auto add_attention = [&](std::int64_t queries, std::int64_t asking, std::int64_t keys) {
    add_layer(all, queries, h, h, learns);
    add_layer(all, keys, h, 2 * h, learns);
    add_layer(all, asking, h, h, learns);
  };
  const auto add_between = [&](std::int64_t rows) {
    add_layer(all, rows, h, kWiderBetween * h, learns);
    add_layer(all, rows, kWiderBetween * h, h, learns);
  };
  for (std::int64_t l = 0; l < s.encoder_layers; ++l) {
    add_attention(seen, seen, seen);
    add_between(seen);
  }
  for (std::int64_t l = 0; l < s.decoder_layers; ++l) {
    const std::int64_t all_places = samples * s.places, rows = l + 1 == s.decoder_layers ? asked : all_places;
    // Before the decoder's first attention to the memory, the rows are the same for all samples.
    if (l == 0) {
      add_attention(s.places, s.places, s.places);
    } else {
      add_attention(rows, rows, all_places);
    }
    add_attention(l == 0 ? s.places : rows, rows, seen);
    add_between(rows);
  }
  add_layer(all, asked, h, s.tokens * s.codes, learns);
  return all;
}

}  // namespace snake_ddp::bench
