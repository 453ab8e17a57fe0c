#include "rollout/rollout.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "nets/device_work.hpp"
#include "rollout_work.hpp"
#include "show_boards.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::rollout {

Seats seats_of(const std::vector<game::Rival>& rivals, std::int64_t boards) {
  const auto is_self = [](const game::Rival& rival) { return rival.is_self(); };
  const auto first = std::find_if(rivals.begin(), rivals.end(), is_self);
  const auto end = std::find_if_not(first, rivals.end(), is_self);
  SD_CHECK(std::none_of(end, rivals.end(), is_self), "boards of games against oneself must be one range");
  return {boards, first - rivals.begin(), end - first};
}

Rollout::Rollout(const RolloutOptions& options, const play::StepRules& rules, const Seats& seats,
                 at::Device device)
    : options_(options), rules_(rules) {
  const std::int64_t all = seats.count(), rows = options_.steps * all;
  SD_CHECK(
      options_.batches <= rows,
      fmt::format("a rollout needs a row for each batch; rows: {}, batches: {}", rows, options_.batches));
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  const auto zeros = [&](at::IntArrayRef sizes) { return at::zeros(sizes, floats); };
  // Views are looked at once for each epoch: writing them anew would take longer than reading them.
  try {
    seen_ = zeros({options_.steps, all, play::kTeamSize, rules_.obs_spec.features() + 1});
  } catch (const c10::Error& e) {
    throw core::UsageError(fmt::format(
        "not enough memory on {} for the observations of a rollout, {} of {}; lower --num_envs or "
        "--rollout_steps. The system says: {}",
        device.str(), core::counted(options_.steps, "step"), core::counted(all, "team"),
        e.what_without_backtrace()));
  }
  board_ = zeros({rows, play::kBoardFloats});
  action_ = zeros({rows, play::kTeamSize, play::kActions});
  reward_ = zeros({rows, play::kTeamSize});
  discount_ = zeros({rows});
  value_ = zeros({rows, play::kTeamSize});
  const std::int64_t pieces = (options_.steps - 1) / rules_.episode_length + 1, cuts = pieces * all;
  cut_board_ = zeros({cuts, play::kBoardFloats});
  cut_value_ = zeros({cuts, play::kTeamSize});
  last_value_ = zeros({all, play::kTeamSize});
  counter_ = at::zeros({kRolloutCounters}, floats.dtype(at::kLong));
  index_ = at::zeros({rows / options_.batches}, counter_.options());
  if (rules_.episode_length < game::kMaxSteps) {
    all_cuts_ = at::arange(cuts, counter_.options());
    cut_seen_ = zeros({cuts, play::kTeamSize, rules_.obs_spec.features() + 1});
  }
  arrays_ = {seats,
             options_.steps,
             static_cast<game::State*>(board_.data_ptr()),
             action_.data_ptr<float>(),
             reward_.data_ptr<float>(),
             discount_.data_ptr<float>(),
             value_.data_ptr<float>(),
             rules_.episode_length,
             static_cast<game::State*>(cut_board_.data_ptr()),
             cut_value_.data_ptr<float>(),
             last_value_.data_ptr<float>(),
             counter_.data_ptr<std::int64_t>()};
}

void Rollout::see(const at::Tensor& observations) {
  seen_.index_copy_(0, counter_.narrow(0, kStep, 1), observations.unsqueeze(0));
}

void Rollout::finish(nets::Policy& policy, const at::Tensor& observations, const game::State* boards) {
  const std::int64_t seats = arrays_.seats.count();
  const auto ask = [&](const at::Tensor& seen) {
    return policy.action_values(seen).to(device()).contiguous();
  };
  if (cut_seen_.defined()) {
    show_boards(rules_.obs_spec, cut_board_, all_cuts_, cut_seen_);
    const at::Tensor outputs = ask(cut_seen_);
    nets::run_work(device(), all_cuts_.size(0), ExpectCut{arrays_, rules_, outputs.const_data_ptr<float>()});
  }
  const at::Tensor outputs = ask(observations);
  nets::run_work(device(), seats, ExpectLast{arrays_, rules_, boards, outputs.const_data_ptr<float>()});
  nets::run_work(device(), seats, Returns{arrays_, static_cast<float>(options_.lambda)});
  nets::run_work(device(), 1, Begin{arrays_});
}

void Rollout::take(learners::Batch& out) {
  const std::int64_t count = index_.size(0);
  nets::run_work(device(), count,
                 TakeRows{arrays_, options_.seed, options_.batches, index_.data_ptr<std::int64_t>()});
  nets::run_work(device(), 1, CountBatch{arrays_});
  out.columns.resize(3);
  const auto fit = [&](at::Tensor& column, at::IntArrayRef sizes) {
    if (!column.defined() || column.sizes() != sizes)
      column = at::empty(sizes, board_.options().pinned_memory(out.pinned));
  };
  fit(out.columns[learners::kObservation], {count, play::kTeamSize, rules_.obs_spec.features() + 1});
  fit(out.columns[learners::kAction], {count, play::kTeamSize, play::kActions});
  fit(out.columns[learners::kReward], {count, play::kTeamSize});
  at::index_select_out(out.columns[learners::kObservation], seen_.flatten(0, 1), 0, index_);
  at::index_select_out(out.columns[learners::kAction], action_, 0, index_);
  at::index_select_out(out.columns[learners::kReward], reward_, 0, index_);
}

void Rollout::took() {
  if (++taken_ == options_.epochs * options_.batches) step_ = taken_ = 0;
}

nets::NamedTensors Rollout::tensors() const {
  return {{"board", board_},       {"action", action_}, {"reward", reward_},
          {"discount", discount_}, {"value", value_},   {"cut_board", cut_board_}};
}

nets::NamedTensors Rollout::state() const {
  if (step_ == 0) return {};
  nets::NamedTensors state = {{"step", at::scalar_tensor(step_, at::kLong)},
                              {"taken", at::scalar_tensor(taken_, at::kLong)}};
  for (const auto& [name, tensor] : tensors())
    state.emplace_back(name, tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  return state;
}

bool Rollout::fits(const nets::NamedTensors& state) const {
  for (const auto& [name, tensor] : tensors()) {
    const at::Tensor* found = nets::find(state, name);
    if (found == nullptr || found->sizes() != tensor.sizes()) return false;
  }
  return true;
}

void Rollout::restore(const nets::NamedTensors& state, std::int64_t draws) {
  const nets::StateReader there(state, "the checkpoint's rollout");
  step_ = taken_ = 0;
  if (!state.empty()) {
    const auto step = there.number<std::int64_t>("step"), taken = there.number<std::int64_t>("taken");
    there.refuse(step < 1 || step > options_.steps, "step");
    there.refuse(
        taken < 0 || taken >= options_.epochs * options_.batches || (taken > 0 && step < options_.steps),
        "taken");
    const std::int64_t stored = step * arrays_.seats.count();
    for (const auto& [name, tensor] : tensors()) {
      const at::Tensor saved = there.like(tensor, name);
      const bool boards = name == "board";
      for (std::int64_t row = 0; boards && row < stored; ++row)
        there.refuse(!is_board(saved.const_data_ptr<float>() + row * play::kBoardFloats), name);
      tensor.copy_(saved);
    }
    // Only boards of games that were cut off are there.
    const at::Tensor discount = discount_.to(at::kCPU), cut = cut_board_.to(at::kCPU);
    for (std::int64_t row = 0, seats = arrays_.seats.count(); row < stored; ++row)
      there.refuse(discount.const_data_ptr<float>()[row] < 0 &&
                       !is_board(cut.const_data_ptr<float>() +
                                 arrays_.cut_at(row / seats, row % seats) * play::kBoardFloats),
                   "cut_board");
    at::Tensor seen = seen_.flatten(0, 1).narrow(0, 0, stored);
    show_boards(rules_.obs_spec, board_, at::arange(stored, counter_.options()), seen);
    step_ = step, taken_ = taken;
  }
  counter_.copy_(at::tensor({step_ % options_.steps, taken_, draws}, at::kLong));
}

}  // namespace snake_ddp::rollout
