#include "rollout/player.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "nets/mlp.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/play/board_step.hpp"

namespace snake_ddp::rollout {
namespace {

// Chooses the moves on all boards of a block at once.
class PolicyMover final : public play::Mover {
 public:
  PolicyMover(const Player& player, std::uint64_t seed) : player_(player), seed_(seed) {
    rows_ = at::zeros({play::kBlock, game::kTeamSize, player_.obs_spec.features() + 1}, at::kFloat);
    memory_ = at::zeros({play::kBlock, game::kTeamSize, player_.policy->memory()}, at::kFloat);
  }

  void act(std::span<const game::State> boards, std::span<const std::uint8_t> team, std::int64_t first_game,
           std::span<game::Actions> actions, std::span<play::Reasons> reasons) override {
    const std::int64_t width = game::kTeamSize * (player_.obs_spec.features() + 1);
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (boards[k].done()) continue;
      player_.obs_spec.write(boards[k], team[k],
                             rows_.data_ptr<float>() + static_cast<std::int64_t>(k) * width);
    }
    const float* values = player_.policy->action_values_after(rows_, memory_).data_ptr<float>();
    const bool argmax = player_.argmax || player_.policy->answer() == nets::Policy::Answer::kValues;
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (boards[k].done()) continue;
      const core::RandomBlock draw =
          core::random_block(seed_, static_cast<std::uint64_t>(first_game) + k,
                             static_cast<std::uint32_t>(boards[k].step() * 2 + team[k]), core::Purpose::kAct);
      for (std::size_t snake = 0; snake < game::kTeamSize; ++snake) {
        const auto index = static_cast<int>(team[k] * game::kTeamSize + snake);
        const play::MoveValues answer =
            play::move_values(player_.obs_spec, player_.mask_fatal, boards[k], index,
                              values + (k * game::kTeamSize + snake) * game::kMoves);
        actions[k].of[index] = argmax ? answer.best() : answer.sampled(core::unit_float(draw.word[snake]));
        if (!reasons.empty()) note(answer, snake, reasons[k]);
      }
    }
  }

 private:
  // The numbers that best_move and sampled_move choose by.
  void note(const play::MoveValues& answer, std::size_t snake, play::Reasons& reasons) const {
    const auto& [weights, open] = answer;
    const bool values = player_.policy->answer() == nets::Policy::Answer::kValues;
    reasons.kind = values ? play::Reasons::Kind::kValues : play::Reasons::Kind::kProbabilities;
    const auto chance = [&](std::size_t move) {
      return (open >> move & 1U) != 0 ? std::max(static_cast<double>(weights[move]), 0.0) : 0.0;
    };
    const double sum = chance(0) + chance(1) + chance(2) + chance(3);
    for (std::size_t move = 0; move < game::kMoves; ++move) {
      const bool may = (open >> move & 1U) != 0;
      reasons.worth[snake][move] = !may        ? play::kClosed
                                   : values    ? static_cast<double>(weights[move])
                                   : sum > 0.0 ? chance(move) / sum
                                               : 1.0 / std::popcount(open);
    }
  }

  const Player player_;
  std::uint64_t seed_;
  at::Tensor rows_, memory_;
};

}  // namespace

play::MakeMover mover(const Player& player, const std::function<bool()>& stop) {
  if (player.scripted) return play::scripted(*player.scripted);
  if (player.search) return play::mover(player.search, player.obs_spec, stop);
  SD_CHECK(player.policy != nullptr, "a player needs a script or a policy");
  return [player](std::uint64_t seed) { return std::make_unique<PolicyMover>(player, seed); };
}

play::QWeights search_weights(const nets::NamedTensors& weights, const std::string& what) {
  nets::Mlp net(nets::mlp_shape_of(weights, nets::kQNetName, what), at::kCPU, nets::kQNetName);
  nets::copy_state(weights, net.named(), what);
  play::QWeights out{net.shape().in, net.shape().hidden, {}};
  const nets::NamedTensors named = net.named();
  auto next = named.begin();
  const auto take = [&](bool turned) {
    const at::Tensor t = (turned ? next->second.t() : next->second).contiguous();
    ++next;
    return core::AlignedFloats(t.data_ptr<float>(), t.data_ptr<float>() + t.numel());
  };
  for (std::size_t k = 0; k < out.layer.size(); ++k) {
    const bool hidden = k < nets::kHiddenLayers;
    out.layer[k].weight = take(hidden);
    out.layer[k].bias = take(false);
    if (!hidden || !net.shape().layer_norm) continue;
    out.layer[k].gain = take(false);
    out.layer[k].shift = take(false);
  }
  if (net.in_bf16()) play::round_weights(out, net.instructions());
  return out;
}

Player with_search(Player player, const std::optional<play::SearchSpec>& how, const play::Training& training,
                   const nets::NamedTensors& weights, const std::string& what) {
  if (how) {
    play::QWeights net = search_weights(weights, what);
    play::fold_if_symmetric(net, game::mirror_of(player.obs_spec.kind));
    player.search = std::make_shared<const play::Searcher>(play::Searcher{std::move(net), training, *how});
  }
  return player;
}

play::MatchResult play_match(const Player& a, const Player& b, const play::MatchOptions& options) {
  return play::play_match(mover(a, options.stop), mover(b, options.stop), options);
}

}  // namespace snake_ddp::rollout
