#include "snake_ddp/nets/token_reader.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <utility>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/tokenizer_rows.hpp"

namespace snake_ddp::nets {
namespace {

// What a stage's file holds of its model: the shape, and the parameters under their own names.
std::pair<at::Tensor, NamedTensors> model_in(const NamedTensors& file, const std::string& what) {
  NamedTensors model = under(file, kModelPrefix);
  const at::Tensor* found = find(model, "shape");
  if (found == nullptr)
    throw base::FileError(what + ": not a file of snake_ddp pretrain: it has no \"model.shape\"");
  const at::Tensor shape = *found;
  std::erase_if(model, [](const auto& item) { return item.first == "shape"; });
  return {shape, std::move(model)};
}

template <class Frozen, class Shape>
Frozen frozen_model(const NamedTensors& file, at::Device device, const std::string& what,
                    Shape (*shape_from)(const at::Tensor&, const std::string&),
                    std::vector<NamedBlock> (*blocks_for)(const Shape&)) {
  const auto [numbers, weights] = model_in(file, what);
  const Shape shape = shape_from(numbers, what);
  const std::vector<NamedBlock> blocks = blocks_for(shape);
  Frozen frozen{shape, FlatParameters(blocks_of(blocks), device)};
  copy_state(weights, views_of(blocks, frozen.parameters), what);
  return frozen;
}

}  // namespace

at::Tensor FrozenTokenizer::tokens(const at::Tensor& graphs) const {
  const c10::NoGradGuard no_grad;
  const Weights& weights = parameters.blocks();
  if (has_tokenizer_rows(shape, graphs.device())) return tokens_by_rows(shape, weights, graphs);
  return nearest_codes(shape, weights, encode_graphs(shape, weights, graphs));
}

FrozenTokenizer frozen_tokenizer(const NamedTensors& file, at::Device device, const std::string& what) {
  return frozen_model<FrozenTokenizer>(file, device, what, tokenizer_shape_from, tokenizer_blocks);
}

FrozenMaskPredictor frozen_mask_predictor(const NamedTensors& file, at::Device device,
                                          const std::string& what) {
  return frozen_model<FrozenMaskPredictor>(file, device, what, mask_predictor_shape_from,
                                           mask_predictor_blocks);
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
  const at::Tensor known =
      code_vectors(t, tokenizer_.parameters.blocks(), tokens);  // [rows * places, tokens, code_size]
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
          0, asked,
          expected(predict_asked(predictor_.shape, predictor_.parameters.blocks(), by_place, unseen, asked)));
    }
  } else {  // without waiting for the device
    const at::Tensor logits =
        predict_tokens(predictor_.shape, predictor_.parameters.blocks(), by_place, unseen);
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
