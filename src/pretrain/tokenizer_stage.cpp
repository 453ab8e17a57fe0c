#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "nets/tokenizer.hpp"
#include "pretrain/stage.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/snake_graph.hpp"

namespace snake_ddp::pretrain {
namespace {

// Graphs that replace a dead code: from the first samples of rank 0's batch, so that one rank with the batch of
// several takes the same ones.
constexpr std::int64_t kCandidateSamples = 32;

nets::TokenizerShape shape_of(const PretrainOptions& o) {
  return {game::kGraphNodes,  game::kNodeFeatures, o.graph_dim,
          o.tokens_per_snake, o.codebook_size,     o.code_dim};
}

class TokenizerStage final : public Stage {
 public:
  TokenizerStage(const PretrainOptions& o, at::Device device)
      : Stage(o, nets::tokenizer_blocks(shape_of(o)), device),
        shape_(shape_of(o)),
        used_(
            at::zeros({shape_.tokens * shape_.codes}, at::TensorOptions().dtype(at::kLong).device(device))) {}

  at::Tensor shape() const override { return nets::shape_tensor(shape_); }
  nets::NamedTensors counters() override { return {{"codes_used", used_}}; }

  SampleOptions sample() const override {
    SampleOptions s;
    s.view_radius = o_.view_radius;
    s.also_unhidden = true;
    return s;
  }

  // A sample's loss is the mean over its visible snakes.
  at::Tensor loss(const Batch& batch, const nets::Weights& weights, double divisor) override {
    const nets::TokenizerLoss l = nets::tokenizer_loss(shape_, weights, graphs_of(batch));
    count(batch, l.tokens);
    return (total(l) * snake_weights(batch)).sum() / divisor;
  }

  Sums no_sums() const override {
    return {at::zeros({3}, at::kDouble), at::zeros({1 + shape_.tokens * shape_.codes}, at::kLong)};
  }

  void tally(const Batch& batch, Sums& sums) const override {
    const c10::NoGradGuard no_grad;
    const at::Tensor weights = snake_weights(batch).to(at::kDouble);
    const nets::TokenizerLoss l = nets::tokenizer_loss(shape_, parameters_.blocks(), graphs_of(batch));
    const auto sum = [&](const at::Tensor& of) { return (of.to(at::kDouble) * weights).sum(); };
    sums.reals += at::stack({sum(total(l)), sum(l.reconstruction), sum(l.commitment)}).to(at::kCPU);
    sums.counts[0] += batch.weight.sum().to(at::kCPU).to(at::kLong);
    sums.counts.narrow(0, 1, shape_.tokens * shape_.codes) += histogram(batch, l.tokens).to(at::kCPU);
  }

  nlohmann::ordered_json report(const Sums& sums) const override {
    const auto samples = sums.counts[0].item<double>();
    const at::Tensor counts =
        sums.counts.narrow(0, 1, shape_.tokens * shape_.codes).view({shape_.tokens, shape_.codes});
    double perplexity = 0;
    for (std::int64_t t = 0; t < shape_.tokens; ++t)
      perplexity += perplexity_of(counts[t]) / static_cast<double>(shape_.tokens);
    const auto codes = static_cast<double>(counts.numel());
    return {{"loss", sums.reals[0].item<double>() / samples},
            {"reconstruction", sums.reals[1].item<double>() / samples},
            {"commitment", sums.reals[2].item<double>() / samples},
            {"codes_used", counts.gt(0).sum().item<double>() / codes},
            {"perplexity", perplexity},
            {"samples", sums.counts[0].item<std::int64_t>()}};
  }

  std::int64_t after_update(const Batch& batch, std::int64_t update, learners::Adam& adam,
                            dist::DistContext& context) override {
    if (o_.revive_interval == 0 || update % o_.revive_interval != 0) return 0;
    const c10::NoGradGuard no_grad;
    context.all_reduce_sum(used_, context.deadline());
    const at::Tensor dead = used_.eq(0).nonzero().flatten().to(at::kCPU);
    used_.zero_();
    at::Tensor candidates = candidates_of(batch);
    context.broadcast(candidates, 0, context.deadline());
    candidates =
        candidates.to(at::kCPU);  // [samples, 6, tokens, code_size + 1], the last one is 1 if it counts
    std::vector<std::int64_t> fine;
    const at::Tensor counts = candidates.select(2, 0).select(2, shape_.code_size).flatten().contiguous();
    for (std::int64_t i = 0; i < counts.numel(); ++i)
      if (counts.data_ptr<float>()[i] > 0) fine.push_back(i);
    if (fine.empty()) return 0;
    const at::Tensor rows = candidates.flatten(0, 1);
    core::RandomStream random(static_cast<std::uint64_t>(o_.seed), static_cast<std::uint64_t>(update),
                              core::Purpose::kRevive);
    for (std::int64_t k = 0; k < dead.numel(); ++k) {
      const std::int64_t code = dead.data_ptr<std::int64_t>()[k];
      const std::int64_t row = fine[random.below(static_cast<std::uint32_t>(fine.size()))];
      nets::codebooks_of(parameters_)[code].copy_(
          rows[row][code / shape_.codes].narrow(0, 0, shape_.code_size));
      nets::codebooks_of(adam.first_moment)[code].zero_();
      nets::codebooks_of(adam.second_moment)[code].zero_();
    }
    return dead.numel();
  }

 private:
  at::Tensor graphs_of(const Batch& batch) const { return batch.seen.flatten(0, 1); }

  at::Tensor total(const nets::TokenizerLoss& l) const {
    return l.reconstruction + l.codebook + l.commitment * o_.commitment;
  }

  // [B * 6], those of a sample sum to its weight.
  static at::Tensor snake_weights(const Batch& batch) {
    const at::Tensor seen = 1 - batch.hidden;
    return (seen / seen.sum(1, true).clamp_min(1.0) * batch.weight.unsqueeze(1)).flatten();
  }

  // How often each code was used by a snake that counts, [tokens * codes].
  at::Tensor histogram(const Batch& batch, const at::Tensor& tokens) const {
    const at::Tensor first = at::arange(shape_.tokens, tokens.options()) * shape_.codes;
    const at::Tensor counts = snake_weights(batch).gt(0).to(at::kLong).unsqueeze(1).expand_as(tokens);
    return at::zeros_like(used_).index_add(0, (tokens + first).flatten(), counts.flatten());
  }

  void count(const Batch& batch, const at::Tensor& tokens) {
    const c10::NoGradGuard no_grad;
    used_ += histogram(batch, tokens);
  }

  at::Tensor candidates_of(const Batch& batch) const {
    const std::int64_t samples = std::min(kCandidateSamples, batch.seen.size(0));
    const at::Tensor latent =
        nets::encode_graphs(shape_, parameters_.blocks(), batch.seen.narrow(0, 0, samples).flatten(0, 1));
    const at::Tensor counts =
        snake_weights(batch).gt(0).to(at::kFloat).view({-1, game::kSnakes}).narrow(0, 0, samples);
    return at::cat({latent, counts.flatten().view({-1, 1, 1}).expand({-1, shape_.tokens, 1})}, 2)
        .view({samples, game::kSnakes, shape_.tokens, shape_.code_size + 1})
        .contiguous();
  }

  const nets::TokenizerShape shape_;
  at::Tensor used_;  // [tokens * codes] int64, by this rank since the last revival
};

}  // namespace

std::unique_ptr<Stage> make_tokenizer_stage(const PretrainOptions& options, at::Device device) {
  return std::make_unique<TokenizerStage>(options, device);
}

double perplexity_of(const at::Tensor& counts) {
  const at::Tensor share = counts.to(at::kDouble) / counts.sum().clamp_min(1);
  return (-(share * share.clamp_min(1e-300).log()).sum()).exp().item<double>();
}

}  // namespace snake_ddp::pretrain
