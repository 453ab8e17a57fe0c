#include "nets/token_reader.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::nets {
namespace {

// What a stage's file holds of its model: the shape, and the parameters under their own names.
std::pair<at::Tensor, NamedTensors> model_in(const NamedTensors& file, const std::string& what) {
  NamedTensors model = under(file, kModelPrefix);
  const at::Tensor* found = find(model, "shape");
  if (found == nullptr)
    throw core::FileError(what + ": not a file of snake_ddp pretrain: it has no \"model.shape\"");
  const at::Tensor shape = *found;
  std::erase_if(model, [](const auto& item) { return item.first == "shape"; });
  for (const auto& [name, tensor] : model)
    if (!at::isfinite(tensor).all().item<bool>())
      throw core::FileError(
          fmt::format("{}: tensor '{}{}' has numbers that are not finite", what, kModelPrefix, name));
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

// Rows that are read together: their intermediate results stay in the second-level cache.
constexpr std::int64_t kBlockRows = 64;

}  // namespace

at::Tensor FrozenTokenizer::tokens(const at::Tensor& graphs) const {
  const c10::NoGradGuard no_grad;
  const Weights& weights = parameters.blocks();
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
    throw core::FileError(fmt::format(
        "{}: the mask predictor was trained for {} of {}, the tokenizer has {} of {}: "
        "run pretrain again",
        what, core::counted(predictor_.shape.tokens, "token"), core::counted(predictor_.shape.codes, "code"),
        tokenizer_.shape.tokens, tokenizer_.shape.codes));
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
  if (!graphs.device().is_cpu()) return read_block(graphs);
  const std::int64_t rows = graphs.size(0);
  at::Tensor all = at::empty({rows, features()});
  at::parallel_for(0, (rows + kBlockRows - 1) / kBlockRows, 1, [&](std::int64_t first, std::int64_t end) {
    const c10::NoGradGuard none;  // a setting of each thread
    for (std::int64_t row = first * kBlockRows; row < std::min(end * kBlockRows, rows); row += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, rows - row);
      at::Tensor block = graphs.narrow(0, row, count);
      if (count < kBlockRows) block = at::constant_pad_nd(block, {0, 0, 0, kBlockRows - count});
      all.narrow(0, row, count).copy_(read_block(block).narrow(0, 0, count));
    }
  });
  return all;
}

at::Tensor TokenReader::read_block(const at::Tensor& graphs) const {
  const TokenizerShape& t = tokenizer_.shape;
  const std::int64_t rows = graphs.size(0), places = predictor_.shape.places;
  const at::Tensor nodes = graphs.reshape({rows * places, t.nodes, t.features}),
                   unseen = 1 - nodes.select(1, 0).select(1, 0).view({rows, places}),
                   tokens = tokenizer_.tokens(nodes),
                   known = code_vectors(t, tokenizer_.parameters.blocks(), tokens),
                   odds = predict_tokens(predictor_.shape, predictor_.parameters.blocks(),
                                         tokens.view({rows, places, t.tokens}), unseen)
                              .flatten(0, 1)
                              .softmax(2),
                   books = codebooks_of(tokenizer_.parameters).view({t.tokens, t.codes, t.code_size}),
                   means = at::bmm(odds.transpose(0, 1), books).transpose(0, 1),
                   vectors = at::where(unseen.view({-1, 1, 1}).gt(0), means, known);
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
