#include "learners/with_tokens.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "learners/learner.hpp"
#include "nets/team.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::learners {
namespace {

using nets::kTeamSize;

constexpr std::array<const char*, 2> kObservations = {"observation", "next_observation"};

// The tokens of the boards that were read last. Reading one takes longer than all else that a drawn row costs, and replay
// draws a board several times.
class ReadBoards {
 public:
  // Pages are allocated on first write.
  ReadBoards(std::int64_t capacity, std::int64_t board_floats, std::int64_t token_floats)
      : capacity_(capacity), board_floats_(board_floats), token_floats_(token_floats) {
    try {
      boards_ = at::empty({capacity, board_floats}, at::kFloat);
      tokens_ = at::empty({capacity, token_floats}, at::kFloat);
    } catch (const c10::Error& e) {
      throw core::UsageError(fmt::format(
          "not enough memory for the tokens of {} ({} MiB); lower --buffer_size. The system says: {}",
          core::counted(capacity, "board"), capacity * (board_floats + token_floats) * 4 >> 20,
          e.what_without_backtrace()));
    }
  }

  // Null for a board that is not kept.
  [[nodiscard]] const float* find(const float* board) const {
    const auto found = places_.find(bytes(board));
    return found == places_.end() ? nullptr : tokens_.const_data_ptr<float>() + found->second * token_floats_;
  }

  void clear() {
    places_.clear();
    next_ = 0;
  }

  void add(const float* board, const float* tokens) {
    if (places_.contains(bytes(board))) return;
    float* const own = boards_.data_ptr<float>() + next_ * board_floats_;
    if (std::ssize(places_) == capacity_) places_.erase(bytes(own));
    std::memcpy(own, board, static_cast<std::size_t>(board_floats_) * sizeof(float));
    std::memcpy(tokens_.data_ptr<float>() + next_ * token_floats_, tokens,
                static_cast<std::size_t>(token_floats_) * sizeof(float));
    places_.emplace(bytes(own), next_);
    next_ = (next_ + 1) % capacity_;
  }

 private:
  [[nodiscard]] std::string_view bytes(const float* board) const {
    return {reinterpret_cast<const char*>(board), static_cast<std::size_t>(board_floats_) * sizeof(float)};
  }

  std::int64_t capacity_, board_floats_, token_floats_, next_ = 0;
  at::Tensor boards_, tokens_;
  std::unordered_map<std::string_view, std::int64_t> places_;  // of the bytes in boards_
};

// Puts tokens in the place of boards.
class Tokens {
 public:
  // `boards`: how many of them are kept, on the CPU.
  Tokens(TokenSource source, std::int64_t plain, std::int64_t boards)
      : source_(std::move(source)), plain_(plain) {
    if (boards > 0 && source_.reader.device().is_cpu())
      kept_.emplace(boards, source_.board_floats, kTeamSize * source_.reader.features());
  }

  void reader_changed() {
    if (kept_) kept_->clear();
  }

  // [B, 3, plain + board + 1] to [B, 3, plain + tokens + 1], on the same device.
  [[nodiscard]] at::Tensor behind(const at::Tensor& observations, bool keeps) {
    const c10::NoGradGuard no_grad;
    // A copy, also of a single row, which is contiguous: a board in a row is not aligned.
    const at::Tensor boards = observations.select(1, 0)
                                  .narrow(1, plain_, source_.board_floats)
                                  .clone(at::MemoryFormat::Contiguous),
                     tokens = keeps && kept_ ? kept(boards) : read(boards);
    return at::cat({observations.narrow(2, 0, plain_), tokens.to(observations.device()),
                    observations.narrow(2, observations.size(2) - 1, 1)},
                   2);
  }

  [[nodiscard]] const nets::TokenReader& reader() const { return source_.reader; }
  [[nodiscard]] std::int64_t plain() const { return plain_; }
  [[nodiscard]] std::int64_t board_floats() const { return source_.board_floats; }

 private:
  // [N, board] to [N, 3, tokens]
  [[nodiscard]] at::Tensor read(const at::Tensor& boards) const {
    return source_.reader.read(source_.graphs(boards.to(source_.reader.device())).flatten(0, 1))
        .view({boards.size(0), kTeamSize, source_.reader.features()});
  }

  // Tokens of these boards; reads only those that are not kept yet.
  [[nodiscard]] at::Tensor kept(const at::Tensor& boards) {
    const std::int64_t count = boards.size(0), width = source_.board_floats,
                       floats = kTeamSize * source_.reader.features();
    const float* const board = boards.const_data_ptr<float>();
    at::Tensor tokens = at::empty({count, kTeamSize, source_.reader.features()});
    auto* const to = tokens.data_ptr<float>();
    std::vector<std::int64_t> unread;
    for (std::int64_t b = 0; b < count; ++b) {
      if (const float* const known = kept_->find(board + b * width))
        std::memcpy(to + b * floats, known, static_cast<std::size_t>(floats) * sizeof(float));
      else
        unread.push_back(b);
    }
    if (unread.empty()) return tokens;
    const at::Tensor rows = at::tensor(unread, at::kLong), fresh = read(boards.index_select(0, rows));
    tokens.index_copy_(0, rows, fresh);
    for (const std::int64_t b : unread) kept_->add(board + b * width, to + b * floats);
    return tokens;
  }

  TokenSource source_;
  std::int64_t plain_;
  std::optional<ReadBoards> kept_;
};

class PolicyWithTokens final : public nets::Policy {
 public:
  PolicyWithTokens(std::shared_ptr<nets::Policy> inner, std::shared_ptr<Tokens> tokens, bool keeps)
      : inner_(std::move(inner)), tokens_(std::move(tokens)), keeps_(keeps) {}
  Answer answer() const override { return inner_->answer(); }
  std::int64_t memory() const override { return inner_->memory(); }
  const at::Tensor& action_values(const at::Tensor& observations) override {
    return inner_->action_values(tokens_->behind(observations, keeps_));
  }
  const at::Tensor& action_values_after(const at::Tensor& observations, at::Tensor& memory) override {
    return inner_->action_values_after(tokens_->behind(observations, keeps_), memory);
  }

 private:
  std::shared_ptr<nets::Policy> inner_;
  std::shared_ptr<Tokens> tokens_;
  bool keeps_;
};

class WithTokens final : public Learner {
 public:
  WithTokens(LearnerOptions options, TokenSource source, std::int64_t boards)
      : tokens_(std::make_shared<Tokens>(std::move(source), options.features, boards)) {
    options.features += tokens_->reader().features();
    inner_ = make_learner(options);
    const std::shared_ptr<nets::Policy> policy(inner_, &inner_->policy());
    policy_ = std::make_unique<PolicyWithTokens>(policy, tokens_, true);
    judged_ = std::make_unique<PolicyWithTokens>(policy, tokens_, false);
    columns_ = inner_->columns();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      for (const char* name : kObservations) {
        if (columns_[c].name != name) continue;
        columns_[c].shape.back() = tokens_->plain() + tokens_->board_floats() + 1;
        observed_.push_back(c);
      }
    }
    remember_reader();
  }

  std::vector<Column> columns() const override { return columns_; }
  nets::Policy& policy() override { return *policy_; }
  nets::Policy& judged_policy() override { return *judged_; }

  void update(const Batch& batch, const Average& average) override {
    tokenized_.columns = batch.columns;
    for (const std::size_t c : observed_) tokenized_.columns[c] = tokens_->behind(batch.columns[c], true);
    inner_->update(tokenized_, average);
  }

  void scale_rates(double factor) override { inner_->scale_rates(factor); }
  at::Tensor measured() const override { return inner_->measured(); }

  // The reader's weights are part of it: checkpoints store them, and ranks compare them.
  nets::NamedTensors state() override {
    const std::string changed = changed_in_reader();
    SD_CHECK(changed.empty(), "frozen weights must stay as they were; changed: " + changed);
    const nets::NamedTensors frozen = tokens_->reader().named();
    nets::NamedTensors all = inner_->state();
    all.insert(all.end(), frozen.begin(), frozen.end());
    return all;
  }
  void state_changed() override {
    inner_->state_changed();
    if (changed_in_reader().empty()) return;  // as after each average of weights
    tokens_->reader_changed();
    remember_reader();
  }

  std::vector<Trained> trained() override { return inner_->trained(); }
  nets::NamedTensors exported_actor() override { return inner_->exported_actor(); }
  nets::NamedTensors exported_critic() override { return inner_->exported_critic(); }
  void start_from_exported() override { inner_->start_from_exported(); }

 private:
  // The name of a frozen tensor that is not as remembered; empty if there is none.
  [[nodiscard]] std::string changed_in_reader() const {
    const nets::NamedTensors frozen = tokens_->reader().named();
    for (std::size_t i = 0; i < frozen.size(); ++i)
      if (!frozen[i].second.equal(remembered_[i])) return frozen[i].first;
    return "";
  }

  void remember_reader() {
    remembered_.clear();
    for (const auto& [name, tensor] : tokens_->reader().named()) remembered_.push_back(tensor.clone());
  }

  std::shared_ptr<Tokens> tokens_;
  std::vector<at::Tensor> remembered_;
  std::shared_ptr<Learner> inner_;
  std::unique_ptr<PolicyWithTokens> policy_, judged_;
  std::vector<Column> columns_;
  std::vector<std::size_t> observed_;  // columns that are observations
  Batch tokenized_;
};

}  // namespace

std::unique_ptr<nets::Policy> make_policy_with_tokens(std::unique_ptr<nets::Policy> inner, TokenSource source,
                                                      std::int64_t plain) {
  return std::make_unique<PolicyWithTokens>(std::move(inner),
                                            std::make_shared<Tokens>(std::move(source), plain, 0), false);
}

std::unique_ptr<Learner> make_learner_with_tokens(LearnerOptions options, TokenSource source,
                                                  std::int64_t boards) {
  return std::make_unique<WithTokens>(std::move(options), std::move(source), boards);
}

}  // namespace snake_ddp::learners
