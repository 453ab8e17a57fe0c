#include "nets/tokenizer.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "snake_ddp/core/check.hpp"
#include "tokenizer_blocks.hpp"

namespace snake_ddp::nets {
namespace {

using namespace tokenizer;

// Which nodes are in neighbouring cells, each row's sum one or none: [N, nodes, nodes].
at::Tensor neighbours(const at::Tensor& graphs) {
  const auto apart = [&](std::int64_t feature, double per_unit, double side) {
    const at::Tensor place = graphs.select(2, feature) * per_unit;
    const at::Tensor difference = place.unsqueeze(2) - place.unsqueeze(1);
    return (difference - (difference / side).round() * side).abs();
  };
  const at::Tensor distance = apart(1, kColumnsPerUnit, kTorusColumns) + apart(2, kRowsPerUnit, kTorusRows);
  const at::Tensor present = graphs.select(2, 0);
  const at::Tensor near = at::logical_and(distance > 0.5, distance < 1.5).to(at::kFloat) *
                          present.unsqueeze(1) * present.unsqueeze(2);
  return near / near.sum(2, true).clamp_min(1.0);
}

}  // namespace

at::Tensor shape_tensor(const TokenizerShape& s) {
  return at::tensor({s.nodes, s.features, s.hidden, s.tokens, s.codes, s.code_size}, at::kLong);
}

TokenizerShape tokenizer_shape_from(const at::Tensor& tensor, const std::string& what) {
  const std::vector<std::int64_t> n = shape_numbers(tensor, 6, what + ": the tokenizer's shape");
  return {n[0], n[1], n[2], n[3], n[4], n[5]};
}

std::vector<NamedBlock> tokenizer_blocks(const TokenizerShape& s) {
  std::vector<NamedBlock> all = {{"places", {s.nodes, s.hidden}, s.hidden},
                                 {"in.weight", {s.hidden, s.features}, s.features},
                                 {"in.bias", {s.hidden, 0}, s.features}};
  for (std::int64_t l = 0; l < kLayers; ++l) {
    for (const char* part : {"own", "near", "all"})
      all.push_back({fmt::format("layer_{}.{}", l, part), {s.hidden, s.hidden}, s.hidden});
    all.push_back({fmt::format("layer_{}.bias", l), {s.hidden, 0}, s.hidden});
  }
  const std::int64_t wide = s.nodes * s.hidden, latent = s.tokens * s.code_size;
  const std::vector<NamedBlock> rest = {{"latent.weight", {latent, wide}, wide},
                                        {"latent.bias", {latent, 0}, wide},
                                        {"codebooks", {s.tokens * s.codes, s.code_size}, s.code_size},
                                        {"decode.weight", {kDecoderWidth, latent}, latent},
                                        {"decode.bias", {kDecoderWidth, 0}, latent},
                                        {"out.weight", {s.nodes * s.features, kDecoderWidth}, kDecoderWidth},
                                        {"out.bias", {s.nodes * s.features, 0}, kDecoderWidth}};
  all.insert(all.end(), rest.begin(), rest.end());
  SD_CHECK(all.size() == kBlocks, fmt::format("a tokenizer has {} blocks, this one {}", kBlocks, all.size()));
  return all;
}

const at::Tensor& codebooks_of(const FlatParameters& parameters) { return parameters.block(kCodes); }

at::Tensor encode_graphs(const TokenizerShape& s, const Weights& w, const at::Tensor& graphs) {
  const at::Tensor present = graphs.narrow(2, 0, 1);  // [N, nodes, 1]
  const at::Tensor near = neighbours(graphs);
  const at::Tensor count = present.sum(1, true).clamp_min(1.0);
  at::Tensor hidden = (at::linear(graphs, w[kIn], w[kInBias]) + w[kPlaces]).relu() * present;
  for (std::size_t l = 0; l < kLayers; ++l) {
    const std::size_t begin = kLayer + l * kLayerBlocks;
    const at::Tensor all = at::linear(hidden.sum(1, true) / count, w[begin + kAll], w[begin + kLayerBias]);
    const at::Tensor from_near = at::bmm(near, at::linear(hidden, w[begin + kNear]));
    hidden = hidden + (at::linear(hidden, w[begin + kOwn]) + from_near + all).relu() * present;
  }
  return at::linear(hidden.flatten(1), w[kLatent], w[kLatentBias]).view({-1, s.tokens, s.code_size});
}

at::Tensor nearest_codes(const TokenizerShape& s, const Weights& w, const at::Tensor& latent) {
  const c10::NoGradGuard no_grad;
  const at::Tensor codes = w[kCodes].detach().view({s.tokens, s.codes, s.code_size});
  // |z - e|^2 less |z|^2, which is the same for all codes.
  const at::Tensor products =
      at::bmm(latent.detach().transpose(0, 1), codes.transpose(1, 2));  // [tokens, N, codes]
  return (codes.square().sum(2).unsqueeze(1) - products * 2).argmin(2).t().contiguous();
}

at::Tensor code_vectors(const TokenizerShape& s, const Weights& w, const at::Tensor& tokens) {
  const at::Tensor first = at::arange(s.tokens, tokens.options()) * s.codes;
  return w[kCodes].index_select(0, (tokens + first).flatten()).view({-1, s.tokens, s.code_size});
}

at::Tensor decode_graphs(const TokenizerShape& s, const Weights& w, const at::Tensor& codes) {
  const at::Tensor hidden = at::linear(codes.flatten(1), w[kDecode], w[kDecodeBias]).relu();
  return at::linear(hidden, w[kOut], w[kOutBias]).view({-1, s.nodes, s.features});
}

TokenizerLoss tokenizer_loss(const TokenizerShape& s, const Weights& w, const at::Tensor& graphs) {
  TokenizerLoss loss;
  loss.latent = encode_graphs(s, w, graphs);
  loss.tokens = nearest_codes(s, w, loss.latent);
  const at::Tensor codes = code_vectors(s, w, loss.tokens);
  // Straight through: forward the codes, backward to the encoder.
  const at::Tensor made = decode_graphs(s, w, loss.latent + (codes - loss.latent).detach());
  const at::Tensor present = graphs.narrow(2, 0, 1);
  const at::Tensor error = (made - graphs).square();
  loss.reconstruction =
      (error.narrow(2, 0, 1) + error.narrow(2, 1, s.features - 1).sum(2, true) * present).sum({1, 2}) /
      static_cast<double>(s.nodes * s.features);
  loss.codebook = (codes - loss.latent.detach()).square().mean({1, 2});
  loss.commitment = (loss.latent - codes.detach()).square().mean({1, 2});
  return loss;
}

}  // namespace snake_ddp::nets
