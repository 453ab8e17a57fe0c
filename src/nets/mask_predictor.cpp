#include "nets/mask_predictor.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "weight_reader.hpp"

namespace snake_ddp::nets {
namespace {

constexpr std::int64_t kWider = 4;  // times the width: the layer between two linear maps

void add_linear(std::vector<NamedBlock>& to, const std::string& name, std::int64_t out, std::int64_t in) {
  to.push_back({name + ".weight", {out, in}, in, 0});
  to.push_back({name + ".bias", {out, 0}, in, 0});
}

void add_norm(std::vector<NamedBlock>& to, const std::string& name, std::int64_t width) {
  to.push_back({name + ".weight", {width, 0}, 0, 1});
  to.push_back({name + ".bias", {width, 0}, 0, 0});
}

void add_attention(std::vector<NamedBlock>& to, const std::string& name, std::int64_t width) {
  add_norm(to, name + ".norm", width);
  add_linear(to, name + ".query", width, width);
  add_linear(to, name + ".key_value", 2 * width, width);
  add_linear(to, name + ".out", width, width);
}

void add_between(std::vector<NamedBlock>& to, const std::string& name, std::int64_t width) {
  add_norm(to, name + ".norm", width);
  add_linear(to, name + ".in", kWider * width, width);
  add_linear(to, name + ".out", width, kWider * width);
}

at::Tensor linear(WeightReader& read, const at::Tensor& x) {
  const at::Tensor& weight = read.next();
  return at::linear(x, weight, read.next());
}

at::Tensor norm(WeightReader& read, const at::Tensor& x) {
  const at::Tensor& weight = read.next();
  return at::layer_norm(x, {x.size(-1)}, weight, read.next(), kernels::kNormEpsilon);
}

// x + attention of the normed x to itself, or to `memory`. `bias` [N, 1, 1, keys] is added to the logits.
at::Tensor attend(WeightReader& read, std::int64_t heads, const at::Tensor& x, const at::Tensor* memory,
                  const at::Tensor& bias) {
  const at::Tensor normed = norm(read, x);
  const std::int64_t width = x.size(2), each = width / heads;
  const auto split = [&](const at::Tensor& t) {
    return t.view({t.size(0), t.size(1), heads, each}).transpose(1, 2);
  };
  const at::Tensor query = split(linear(read, normed));
  const std::vector<at::Tensor> key_value = linear(read, memory != nullptr ? *memory : normed).chunk(2, 2);
  const at::Tensor key = split(key_value[0]), value = split(key_value[1]);
  at::Tensor logits = at::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(each));
  if (bias.defined()) logits = logits + bias;
  const at::Tensor mixed = at::matmul(logits.softmax(3), value).transpose(1, 2).reshape(x.sizes());
  return x + linear(read, mixed);
}

at::Tensor pass_between(WeightReader& read, const at::Tensor& x) {
  const at::Tensor wide = at::gelu(linear(read, norm(read, x)));
  return x + linear(read, wide);
}

}  // namespace

at::Tensor shape_tensor(const MaskPredictorShape& s) {
  return at::tensor({s.places, s.tokens, s.codes, s.hidden, s.heads, s.encoder_layers, s.decoder_layers},
                    at::kLong);
}

MaskPredictorShape mask_predictor_shape_from(const at::Tensor& tensor, const std::string& what) {
  const std::vector<std::int64_t> n = shape_numbers(tensor, 7, what + ": the mask predictor's shape");
  if (n[4] == 0 || n[3] % n[4] != 0) throw core::FileError(what + ": heads that do not divide the width");
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
}

std::vector<NamedBlock> mask_predictor_blocks(const MaskPredictorShape& s) {
  std::vector<NamedBlock> all = {{"tokens", {s.tokens * s.codes, s.hidden}, s.hidden, 0},
                                 {"places", {s.places, s.hidden}, s.hidden, 0},
                                 {"questions", {s.places, s.hidden}, s.hidden, 0}};
  for (std::int64_t l = 0; l < s.encoder_layers; ++l) {
    add_attention(all, fmt::format("encoder.{}.self", l), s.hidden);
    add_between(all, fmt::format("encoder.{}.between", l), s.hidden);
  }
  add_norm(all, "encoder.norm", s.hidden);
  for (std::int64_t l = 0; l < s.decoder_layers; ++l) {
    add_attention(all, fmt::format("decoder.{}.self", l), s.hidden);
    add_attention(all, fmt::format("decoder.{}.cross", l), s.hidden);
    add_between(all, fmt::format("decoder.{}.between", l), s.hidden);
  }
  add_norm(all, "decoder.norm", s.hidden);
  add_linear(all, "answer", s.tokens * s.codes, s.hidden);
  return all;
}

at::Tensor predict_tokens(const MaskPredictorShape& s, const Weights& weights, const at::Tensor& tokens,
                          const at::Tensor& unseen) {
  WeightReader read(weights);
  const std::int64_t rows = tokens.size(0);
  const at::Tensor first = at::arange(s.tokens, tokens.options()) * s.codes;
  const at::Tensor& vectors = read.next();
  const at::Tensor token_sum =
      vectors.index_select(0, (tokens + first).flatten()).view({rows, s.places, s.tokens, s.hidden}).sum(2);
  at::Tensor memory = token_sum + read.next();
  at::Tensor answer = read.next().unsqueeze(0).expand({rows, s.places, s.hidden});
  // A large number rather than infinity, so that no row becomes NaN.
  const at::Tensor closed = (unseen * -1e9).view({rows, 1, 1, s.places});
  for (std::int64_t l = 0; l < s.encoder_layers; ++l) {
    memory = attend(read, s.heads, memory, nullptr, closed);
    memory = pass_between(read, memory);
  }
  memory = norm(read, memory);
  for (std::int64_t l = 0; l < s.decoder_layers; ++l) {
    answer = attend(read, s.heads, answer, nullptr, {});
    answer = attend(read, s.heads, answer, &memory, closed);
    answer = pass_between(read, answer);
  }
  const at::Tensor logits = linear(read, norm(read, answer));
  read.check_end();
  return logits.view({rows, s.places, s.tokens, s.codes});
}

}  // namespace snake_ddp::nets
