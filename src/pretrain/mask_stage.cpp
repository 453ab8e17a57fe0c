#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/game/state.hpp"
#include "snake_ddp/nets/mask_predictor.hpp"
#include "snake_ddp/nets/token_reader.hpp"
#include "snake_ddp/pretrain/stage.hpp"

namespace snake_ddp::pretrain {
namespace {

class MaskStage final : public Stage {
 public:
  MaskStage(const PretrainOptions& o, nets::FrozenTokenizer tokenizer, at::Device device)
      : o_(o),
        tokenizer_(std::move(tokenizer)),
        shape_{game::kSnakes, tokenizer_.shape.tokens, tokenizer_.shape.codes, o.hidden_dim,
               o.num_heads,   o.num_encoder_layers,    o.num_decoder_layers},
        blocks_(nets::mask_predictor_blocks(shape_)),
        parameters_(nets::blocks_of(blocks_), device),
        plain_(nets::plain_weights(blocks_, parameters_)) {
    nets::init_blocks(blocks_, parameters_, static_cast<std::uint64_t>(o.seed));
  }

  nets::FlatParameters& parameters() override { return parameters_; }
  const std::vector<nets::NamedBlock>& blocks() const override { return blocks_; }
  at::Tensor shape() const override { return nets::shape_tensor(shape_); }
  std::vector<at::Tensor> frozen() const override { return {tokenizer_.parameters.flat()}; }
  nets::NamedTensors counters() override { return {}; }

  data::SampleOptions sample() const override {
    data::SampleOptions s;
    s.mask_ratio = o_.mask_ratio;
    s.view_radius = o_.view_radius;
    return s;
  }

  at::Tensor loss(const data::Batch& batch, const nets::Weights& weights, double divisor) override {
    const Answer answer = answer_to(batch, weights);
    return (answer.error * place_weights(batch)).sum() / divisor;
  }

  Sums no_sums() const override {
    return {at::zeros({1}, at::kDouble), at::zeros({3 + shape_.tokens * shape_.codes}, at::kLong)};
  }

  void tally(const data::Batch& batch, Sums& sums) const override {
    const c10::NoGradGuard no_grad;
    const Answer answer = answer_to(batch, plain_);
    sums.reals[0] += (answer.error.to(at::kDouble) * place_weights(batch).to(at::kDouble)).sum().to(at::kCPU);
    const at::Tensor asked =
        batch.masked.gt(0).unsqueeze(2).expand_as(answer.truth).to(at::kLong);  // [B, 6, tokens]
    sums.counts[0] += batch.weight.sum().to(at::kCPU).to(at::kLong);
    sums.counts[1] += asked.sum().to(at::kCPU);
    sums.counts[2] += (answer.logits.argmax(3).eq(answer.truth).to(at::kLong) * asked).sum().to(at::kCPU);
    const at::Tensor first = at::arange(shape_.tokens, answer.truth.options()) * shape_.codes;
    sums.counts.narrow(0, 3, shape_.tokens * shape_.codes) +=
        at::zeros({shape_.tokens * shape_.codes}, answer.truth.options())
            .index_add(0, (answer.truth + first).flatten(), asked.flatten())
            .to(at::kCPU);
  }

  // The majority baseline predicts each token as the most frequent value of the very tokens that are predicted: no
  // constant answer is right more often.
  nlohmann::ordered_json report(const Sums& sums) const override {
    const at::Tensor counts =
        sums.counts.narrow(0, 3, shape_.tokens * shape_.codes).view({shape_.tokens, shape_.codes});
    const auto asked = sums.counts[1].item<double>();
    const double accuracy = sums.counts[2].item<double>() / asked,
                 majority = counts.amax(1).sum().item<double>() / asked;
    return {{"loss", sums.reals[0].item<double>() / sums.counts[0].item<double>()},
            {"accuracy", accuracy},
            {"majority", majority},
            {"ratio", accuracy / majority},
            {"tokens_asked", sums.counts[1].item<std::int64_t>()},
            {"samples", sums.counts[0].item<std::int64_t>()}};
  }

  std::int64_t after_update(const data::Batch&, std::int64_t, learners::Adam&, dist::DistContext&) override {
    return 0;
  }

 private:
  struct Answer {
    at::Tensor truth;   // [B, 6, tokens]
    at::Tensor logits;  // [B, 6, tokens, codes]
    at::Tensor error;   // [B, 6], cross entropy, the mean of a snake's tokens
  };

  Answer answer_to(const data::Batch& batch, const nets::Weights& weights) const {
    const std::int64_t size = batch.seen.size(0);
    const auto tokens_of = [&](const at::Tensor& graphs) {
      return tokenizer_.tokens(graphs.flatten(0, 1)).view({size, shape_.places, shape_.tokens});
    };
    const at::Tensor seen = tokens_of(batch.seen);
    Answer answer;
    answer.truth = batch.whole.defined() ? tokens_of(batch.whole) : seen;
    // Snakes that are not to be predicted are also hidden from the encoder if they are not visible.
    answer.logits = nets::predict_tokens(shape_, weights, seen, at::maximum(batch.masked, batch.hidden));
    answer.error = at::nll_loss(answer.logits.log_softmax(3).flatten(0, 2), answer.truth.flatten(), {},
                                at::Reduction::None)
                       .view({size, shape_.places, shape_.tokens})
                       .mean(2);
    return answer;
  }

  // [B, 6], those of a sample sum to its weight, or to 0 if nothing is to be predicted.
  static at::Tensor place_weights(const data::Batch& batch) {
    return batch.masked / batch.masked.sum(1, true).clamp_min(1.0) * batch.weight.unsqueeze(1);
  }

  const PretrainOptions o_;
  const nets::FrozenTokenizer tokenizer_;
  const nets::MaskPredictorShape shape_;
  const std::vector<nets::NamedBlock> blocks_;
  nets::FlatParameters parameters_;
  const nets::Weights plain_;
};

}  // namespace

std::unique_ptr<Stage> make_mask_stage(const PretrainOptions& o, at::Device device) {
  const std::string path = o.tokenizer.empty() ? o.save_dir + "/tokenizer_best.pth" : o.tokenizer;
  return std::make_unique<MaskStage>(o, nets::frozen_tokenizer(files::load_state_dict(path), device, path),
                                     device);
}

}  // namespace snake_ddp::pretrain
