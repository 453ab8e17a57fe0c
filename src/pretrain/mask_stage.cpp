#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "io/state_dict.hpp"
#include "nets/mask_predictor.hpp"
#include "nets/token_reader.hpp"
#include "pretrain/stage.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::pretrain {
namespace {

// Positions of elements above 0, ascending; if there are none, the first position.
// Shapes  places [N, places]; returns [A] int64.
at::Tensor places_to_ask(const at::Tensor& places) {
  const at::Tensor found = places.flatten().gt(0).nonzero().flatten();
  return found.numel() > 0 ? found : at::zeros({1}, found.options());
}

nets::MaskPredictorShape predictor_shape(const PretrainOptions& o, const nets::TokenizerShape& read) {
  return {game::kSnakes, read.tokens,          read.codes,          o.hidden_dim,
          o.num_heads,   o.num_encoder_layers, o.num_decoder_layers};
}

class MaskStage final : public Stage {
 public:
  MaskStage(const PretrainOptions& o, nets::FrozenTokenizer tokenizer, at::Device device)
      : Stage(o, nets::mask_predictor_blocks(predictor_shape(o, tokenizer.shape)), device),
        tokenizer_(std::move(tokenizer)),
        shape_(predictor_shape(o, tokenizer_.shape)) {}

  at::Tensor shape() const override { return nets::shape_tensor(shape_); }
  std::vector<at::Tensor> frozen() const override { return {tokenizer_.parameters.flat()}; }

  SampleOptions sample() const override {
    SampleOptions s;
    s.mask_ratio = o_.mask_ratio;
    s.view_radius = o_.view_radius;
    return s;
  }

  at::Tensor loss(const Batch& batch, const nets::Weights& weights, double divisor) override {
    const Answer answer = answer_to(batch, weights);
    return (answer.error * answer.weight).sum() / divisor;
  }

  Sums no_sums() const override {
    return {at::zeros({1}, at::kDouble), at::zeros({3 + shape_.tokens * shape_.codes}, at::kLong)};
  }

  void tally(const Batch& batch, Sums& sums) const override {
    const c10::NoGradGuard no_grad;
    const Answer answer = answer_to(batch, parameters_.blocks());
    sums.reals[0] += (answer.error.to(at::kDouble) * answer.weight.to(at::kDouble)).sum().to(at::kCPU);
    sums.counts[0] += batch.weight.sum().to(at::kCPU).to(at::kLong);
    const at::Tensor asked = answer.masked.unsqueeze(1).expand_as(answer.truth).to(at::kLong);  // [A, tokens]
    sums.counts[1] += asked.sum().to(at::kCPU);
    sums.counts[2] += (answer.logits.argmax(2).eq(answer.truth).to(at::kLong) * asked).sum().to(at::kCPU);
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

 private:
  // For each place that is to be predicted.
  struct Answer {
    at::Tensor truth;   // [A, tokens]
    at::Tensor logits;  // [A, tokens, codes]
    at::Tensor error;   // [A], cross entropy, the mean of a snake's tokens
    at::Tensor weight;  // [A], of place_weights
    at::Tensor masked;  // [A], 1 if the place is to be predicted, 0 for the first place if none is
  };

  Answer answer_to(const Batch& batch, const nets::Weights& weights) const {
    const std::int64_t size = batch.seen.size(0);
    const at::Tensor asked = places_to_ask(batch.masked);
    const at::Tensor seen = tokenizer_.tokens(batch.seen.flatten(0, 1));  // [B * 6, tokens]
    Answer answer;
    answer.truth = batch.whole.defined() ? tokenizer_.tokens(batch.whole.flatten(0, 1).index_select(0, asked))
                                         : seen.index_select(0, asked);
    // Snakes that are not to be predicted are also hidden from the encoder if they are not visible.
    answer.logits = nets::predict_tokens(shape_, weights, seen.view({size, shape_.places, shape_.tokens}),
                                         at::maximum(batch.masked, batch.hidden))
                        .flatten(0, 1)
                        .index_select(0, asked);
    answer.error = at::nll_loss(answer.logits.log_softmax(2).flatten(0, 1), answer.truth.flatten(), {},
                                at::Reduction::None)
                       .view({-1, shape_.tokens})
                       .mean(1);
    answer.weight = place_weights(batch).flatten().index_select(0, asked);
    answer.masked = batch.masked.flatten().index_select(0, asked).gt(0);
    return answer;
  }

  // [B, 6], those of a sample sum to its weight, or to 0 if nothing is to be predicted.
  static at::Tensor place_weights(const Batch& batch) {
    return batch.masked / batch.masked.sum(1, true).clamp_min(1.0) * batch.weight.unsqueeze(1);
  }

  const nets::FrozenTokenizer tokenizer_;
  const nets::MaskPredictorShape shape_;
};

}  // namespace

std::unique_ptr<Stage> make_mask_stage(const PretrainOptions& o, at::Device device) {
  const std::string path = o.tokenizer.empty() ? o.save_dir + "/tokenizer_best.pth" : o.tokenizer;
  return std::make_unique<MaskStage>(o, nets::frozen_tokenizer(io::load_state_dict(path), device, path),
                                     device);
}

}  // namespace snake_ddp::pretrain
