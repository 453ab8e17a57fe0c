#include "snake_ddp/learners/with_tokens.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <array>
#include <utility>
#include <vector>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/learners/learner.hpp"

namespace snake_ddp::learners {
namespace {

constexpr std::array<const char*, 2> kObservations = {"observation", "next_observation"};

// [B, 3, plain + graphs + 1] to [B, 3, plain + tokens + 1], on the same device.
at::Tensor with_tokens(const nets::TokenReader& reader, std::int64_t plain, const at::Tensor& observations) {
  const c10::NoGradGuard no_grad;
  const at::Tensor graphs = observations.narrow(2, plain, reader.graph_floats());
  const at::Tensor tokens = reader.read(graphs.flatten(0, 1).to(reader.device()))
                                .to(observations.device())
                                .view({observations.size(0), observations.size(1), -1});
  return at::cat(
      {observations.narrow(2, 0, plain), tokens, observations.narrow(2, observations.size(2) - 1, 1)}, 2);
}

class PolicyWithTokens final : public nets::Policy {
 public:
  PolicyWithTokens(std::unique_ptr<nets::Policy> inner, nets::TokenReader reader, std::int64_t plain)
      : inner_(std::move(inner)), reader_(std::move(reader)), plain_(plain) {}
  Answer answer() const override { return inner_->answer(); }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return inner_->action_values(with_tokens(reader_, plain_, observations));
  }

 private:
  std::unique_ptr<nets::Policy> inner_;
  nets::TokenReader reader_;
  std::int64_t plain_;
};

class WithTokens final : public Learner, private nets::Policy {
 public:
  WithTokens(LearnerOptions options, nets::TokenReader reader)
      : plain_(options.features), reader_(std::move(reader)) {
    options.features = plain_ + reader_.features();
    inner_ = make_learner(options);
    columns_ = inner_->columns();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      for (const char* name : kObservations) {
        if (columns_[c].name != name) continue;
        columns_[c].shape.back() = plain_ + reader_.graph_floats() + 1;
        observed_.push_back(c);
      }
    }
    remember_reader();
  }

  std::vector<replay::Column> columns() const override { return columns_; }
  nets::Policy& policy() override { return *this; }

  void update(const replay::Batch& batch, const Average& average) override {
    tokenized_.columns = batch.columns;
    for (const std::size_t c : observed_)
      tokenized_.columns[c] = with_tokens(reader_, plain_, batch.columns[c]);
    inner_->update(tokenized_, average);
  }

  void scale_rates(double factor) override { inner_->scale_rates(factor); }
  at::Tensor measured() const override { return inner_->measured(); }

  // The reader's weights are part of it: checkpoints store them, and ranks compare them.
  nets::NamedTensors state() override {
    const nets::NamedTensors frozen = reader_.named();
    for (std::size_t i = 0; i < frozen.size(); ++i)
      SD_CHECK(frozen[i].second.equal(remembered_[i]), "the frozen " + frozen[i].first + " changed");
    nets::NamedTensors all = inner_->state();
    all.insert(all.end(), frozen.begin(), frozen.end());
    return all;
  }
  void state_changed() override {
    inner_->state_changed();
    remember_reader();
  }

  std::vector<Trained> trained() override { return inner_->trained(); }
  nets::NamedTensors exported_actor() override { return inner_->exported_actor(); }
  nets::NamedTensors exported_critic() override { return inner_->exported_critic(); }
  void start_from_exported() override { inner_->start_from_exported(); }

 private:
  Answer answer() const override { return inner_->policy().answer(); }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return inner_->policy().action_values(with_tokens(reader_, plain_, observations));
  }

  void remember_reader() {
    remembered_.clear();
    for (const auto& [name, tensor] : reader_.named()) remembered_.push_back(tensor.clone());
  }

  std::int64_t plain_;
  nets::TokenReader reader_;
  std::vector<at::Tensor> remembered_;
  std::unique_ptr<Learner> inner_;
  std::vector<replay::Column> columns_;
  std::vector<std::size_t> observed_;  // columns that are observations
  replay::Batch tokenized_;
};

}  // namespace

std::unique_ptr<nets::Policy> make_policy_with_tokens(std::unique_ptr<nets::Policy> inner,
                                                      nets::TokenReader reader, std::int64_t plain) {
  return std::make_unique<PolicyWithTokens>(std::move(inner), std::move(reader), plain);
}

std::unique_ptr<Learner> make_learner_with_tokens(LearnerOptions options, nets::TokenReader reader) {
  return std::make_unique<WithTokens>(std::move(options), std::move(reader));
}

}  // namespace snake_ddp::learners
