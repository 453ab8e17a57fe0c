#include "snake_ddp/nets/token_reader.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/tokenizer_rows.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::string_view kPrefix = kModelPrefix;

// What a stage's file holds of its model: the shape, and the parameters under their own names.
std::pair<at::Tensor, NamedTensors> model_in(const NamedTensors& file, const std::string& what) {
  std::pair<at::Tensor, NamedTensors> found;
  for (const auto& [name, tensor] : file) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string own = name.substr(kPrefix.size());
    if (own == "shape") {
      found.first = tensor;
    } else {
      found.second.emplace_back(own, tensor);
    }
  }
  if (!found.first.defined())
    throw base::FileError(what + ": not a file of snake_ddp pretrain: it has no \"model.shape\"");
  return found;
}

}  // namespace

at::Tensor FrozenTokenizer::tokens(const at::Tensor& graphs) const {
  const c10::NoGradGuard no_grad;
  if (has_tokenizer_rows(shape, graphs.device())) return tokens_by_rows(shape, weights, graphs);
  return nearest_codes(shape, weights, encode_graphs(shape, weights, graphs));
}

FrozenTokenizer frozen_tokenizer(const NamedTensors& file, at::Device device, const std::string& what) {
  const auto [numbers, weights] = model_in(file, what);
  const TokenizerShape shape = tokenizer_shape_from(numbers, what);
  const std::vector<NamedBlock> blocks = tokenizer_blocks(shape);
  FrozenTokenizer frozen{shape, FlatParameters(blocks_of(blocks), device), {}};
  copy_state(weights, views_of(blocks, frozen.parameters), what);
  frozen.weights = plain_weights(blocks, frozen.parameters);
  return frozen;
}

FrozenMaskPredictor frozen_mask_predictor(const NamedTensors& file, at::Device device,
                                          const std::string& what) {
  const auto [numbers, weights] = model_in(file, what);
  const MaskPredictorShape shape = mask_predictor_shape_from(numbers, what);
  const std::vector<NamedBlock> blocks = mask_predictor_blocks(shape);
  FrozenMaskPredictor frozen{shape, FlatParameters(blocks_of(blocks), device), {}};
  copy_state(weights, views_of(blocks, frozen.parameters), what);
  frozen.weights = plain_weights(blocks, frozen.parameters);
  return frozen;
}

TokenReader::TokenReader(FrozenTokenizer tokenizer, FrozenMaskPredictor predictor, const std::string& what)
    : tokenizer_(std::move(tokenizer)), predictor_(std::move(predictor)) {
  if (tokenizer_.shape.tokens != predictor_.shape.tokens ||
      tokenizer_.shape.codes != predictor_.shape.codes) {
    throw base::FileError(fmt::format(
        "{}: the mask predictor was trained for {} tokens of {} codes, the tokenizer has {} of {}: "
        "run pretrain again",
        what, predictor_.shape.tokens, predictor_.shape.codes, tokenizer_.shape.tokens,
        tokenizer_.shape.codes));
  }
}

std::int64_t TokenReader::graph_floats() const {
  return predictor_.shape.places * tokenizer_.shape.nodes * tokenizer_.shape.features;
}

std::int64_t TokenReader::features() const {
  return predictor_.shape.places * (tokenizer_.shape.tokens * tokenizer_.shape.code_size + 1);
}

at::Tensor TokenReader::read(const at::Tensor& graphs) const {
  const c10::NoGradGuard no_grad;
  const TokenizerShape& t = tokenizer_.shape;
  const std::int64_t rows = graphs.size(0), places = predictor_.shape.places;
  const at::Tensor nodes = graphs.reshape({rows * places, t.nodes, t.features});
  const at::Tensor tokens = tokenizer_.tokens(nodes);
  const at::Tensor unseen = 1 - nodes.select(1, 0).select(1, 0).view({rows, places});
  const at::Tensor by_place = tokens.view({rows, places, t.tokens});
  const at::Tensor known = code_vectors(t, tokenizer_.weights, tokens);  // [rows * places, tokens, code_size]
  const at::Tensor books = codebooks_of(tokenizer_.parameters).view({t.tokens, t.codes, t.code_size});
  // [places that are asked, tokens, codes] to the mean vectors.
  const auto expected = [&](const at::Tensor& logits) {
    return at::bmm(logits.softmax(2).transpose(0, 1), books).transpose(0, 1);
  };
  at::Tensor vectors;
  if (graphs.device().is_cpu()) {
    const at::Tensor asked = unseen.flatten().gt(0).nonzero().flatten();
    vectors = known;
    if (asked.numel() > 0) {
      vectors.index_copy_(
          0, asked, expected(predict_asked(predictor_.shape, predictor_.weights, by_place, unseen, asked)));
    }
  } else {  // without waiting for the device
    const at::Tensor logits = predict_tokens(predictor_.shape, predictor_.weights, by_place, unseen);
    vectors = at::where(unseen.view({rows * places, 1, 1}).gt(0), expected(logits.flatten(0, 1)), known);
  }
  return at::cat({vectors.reshape({rows, -1}), unseen}, 1);
}

NamedTensors TokenReader::named() const {
  NamedTensors all;
  add_under(all, "tokens.tokenizer.", views_of(tokenizer_blocks(tokenizer_.shape), tokenizer_.parameters));
  add_under(all, "tokens.mask_predictor.",
            views_of(mask_predictor_blocks(predictor_.shape), predictor_.parameters));
  return all;
}

}  // namespace snake_ddp::nets
