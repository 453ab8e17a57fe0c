// DDPG's gradients on the CPU, a chunk of rows at a time: target, forward and backward passes of a chunk follow each
// other while its rows are in the first caches. The library's path is the oracle.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/learners/ddpg.hpp"

namespace snake_ddp::learners {
namespace {

constexpr std::int64_t kChunk = nets::kChunkRows;

// [features, action, 1] of each row.
void join(std::int64_t rows, std::int64_t features, const float* observation, const float* action,
          float* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = to + r * (features + kActions + 1);
    std::copy_n(observation + r * (features + 1), features, row);
    std::copy_n(action + r * kActions, kActions, row + features);
    row[features + kActions] = 1.0F;
  }
}

const float* data(const replay::Batch& batch, Column column) {
  const at::Tensor& t = batch.columns.at(column);
  SD_CHECK(t.is_contiguous() && t.device().is_cpu(), "a batch in main memory");
  return t.data_ptr<float>();
}

}  // namespace

struct DdpgRows {
  DdpgRows(std::int64_t hidden_size, std::int64_t features)
      : actor(hidden_size, features + kActions), critic(hidden_size, features + kActions) {}
  nets::RowScratch actor, critic;
  std::vector<float> joined;
  using Column = std::array<float, kChunk>;
  using Moves = std::array<float, kChunk * kActions>;
  alignas(64) Column target, q, d_q;
  alignas(64) Moves action, move_values, d_action;
};

void Ddpg::prepare_rows() {
  rows_ = std::make_shared<DdpgRows>(options_.hidden_size, options_.features);
  policy_.emplace(actor_.rows, rows_->actor);
}

void Ddpg::unfold_in_rows(DdpgTrainee& t) {
  nets::unfold(t.net.shape(), t.net.blocks(), t.folded_gradient.blocks(), rows_->critic,
               t.net.blocks(t.gradient));
}

// L = mean (Q(s, a) - (r + discount * Q'(s', mu'(s'))))^2
void Ddpg::critic_gradient_in_rows(const replay::Batch& batch) {
  DdpgRows& s = *rows_;
  const std::int64_t d = options_.features, total = batch.columns.at(kObservation).size(0) * kTeam;
  s.joined.resize(static_cast<std::size_t>(kChunk * (d + kActions + 1)));
  const float *observation = data(batch, kObservation), *action = data(batch, kAction),
              *reward = data(batch, kReward), *next = data(batch, kNextObservation),
              *discount = data(batch, kDiscount);
  critic_.folded_gradient.flat.zero_();
  double squares = 0, q_sum = 0;
  for (std::int64_t first = 0; first < total; first += kChunk) {
    const std::int64_t rows = std::min(kChunk, total - first);
    const float* next_rows = next + first * (d + 1);
    nets::forward(actor_.target_rows, rows, next_rows, d + 1, s.actor, s.action.data());
    if (options_.expected_value) {
      nets::forward_moves(critic_.target_rows, rows, next_rows, kActions, s.critic, s.move_values.data());
      for (std::int64_t r = 0; r < rows; ++r) {
        const float *p = s.action.data() + r * kActions, *v = s.move_values.data() + r * kActions;
        s.target[static_cast<std::size_t>(r)] = (p[0] * v[0] + p[1] * v[1]) + (p[2] * v[2] + p[3] * v[3]);
      }
    } else {
      join(rows, d, next_rows, s.action.data(), s.joined.data());
      nets::forward(critic_.target_rows, rows, s.joined.data(), d + kActions + 1, s.critic, s.target.data());
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const auto row = static_cast<std::size_t>(first) + r;
      s.target[r] = reward[row] + discount[row] * s.target[r];
    }
    join(rows, d, observation + first * (d + 1), action + first * kActions, s.joined.data());
    nets::forward(critic_.rows, rows, s.joined.data(), d + kActions + 1, s.critic, s.q.data());
    const auto scale = static_cast<float>(2.0 / static_cast<double>(total));
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const float error = s.q[r] - s.target[r];
      s.d_q[r] = scale * error;
      squares += static_cast<double>(error) * static_cast<double>(error);
      q_sum += static_cast<double>(s.q[r]);
    }
    nets::backward(critic_.rows, rows, s.joined.data(), d + kActions + 1, s.q.data(), s.d_q.data(), s.critic,
                   critic_.folded_gradient.blocks());
  }
  critic_loss_.fill_(squares / static_cast<double>(total));
  q_mean_.fill_(q_sum / static_cast<double>(total));
}

// L = -mean Q(s, mu(s)); only the actor's gradient is computed.
void Ddpg::actor_gradient_in_rows(const replay::Batch& batch) {
  DdpgRows& s = *rows_;
  const std::int64_t d = options_.features, total = batch.columns.at(kObservation).size(0) * kTeam;
  const float* observation = data(batch, kObservation);
  const nets::DenseRows& critic = critic_.rows;
  actor_.folded_gradient.flat.zero_();
  double q_sum = 0;
  const auto scale = static_cast<float>(-1.0 / static_cast<double>(total));
  for (std::int64_t first = 0; first < total; first += kChunk) {
    const std::int64_t rows = std::min(kChunk, total - first);
    const float* observed = observation + first * (d + 1);
    nets::forward(actor_.rows, rows, observed, d + 1, s.actor, s.action.data());
    if (options_.expected_value) {
      // dL/da_i = -Q(s, e_i) / n: the critic is not differentiated at all.
      nets::forward_moves(critic, rows, observed, kActions, s.critic, s.d_action.data());
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows * kActions); ++i) {
        q_sum += static_cast<double>(s.d_action[i] * s.action[i]);
        s.d_action[i] *= scale;
      }
    } else {
      join(rows, d, observed, s.action.data(), s.joined.data());
      nets::forward(critic, rows, s.joined.data(), d + kActions + 1, s.critic, s.q.data());
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) q_sum += static_cast<double>(s.q[r]);
      s.d_q.fill(scale);
      nets::backward_input(critic, rows, s.d_q.data(), s.critic, d, kActions, s.d_action.data());
    }
    nets::backward(actor_.rows, rows, observed, d + 1, s.action.data(), s.d_action.data(), s.actor,
                   actor_.folded_gradient.blocks());
  }
  actor_loss_.fill_(-q_sum / static_cast<double>(total));
}

}  // namespace snake_ddp::learners
