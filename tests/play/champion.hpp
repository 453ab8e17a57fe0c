// The trained network that the tests search with, and boards of its games.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "io/state_dict.hpp"
#include "nets/policy.hpp"
#include "rollout/player.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/play/mover.hpp"
#include "test_data.hpp"

namespace champion {

using namespace snake_ddp;

inline const io::NamedTensors& weights() {
  static const io::NamedTensors all = io::load_state_dict(test_data("../../models/champion.pth"));
  return all;
}

inline constexpr game::ObsKind kSees = game::ObsKind::kAhead;
inline play::ObsSpec obs_spec() { return {kSees}; }

inline const play::QWeights& net() {
  static const play::QWeights all = [] {
    play::QWeights read = rollout::search_weights(weights(), "champion.pth");
    play::fold_if_symmetric(read, game::mirror_of(kSees));
    return read;
  }();
  return all;
}

inline play::Evaluator evaluator() { return {net(), obs_spec(), {}}; }

inline play::MakeMover searching(const play::SearchSpec& spec) {
  return play::mover(std::make_shared<const play::Searcher>(play::Searcher{net(), {}, spec}), obs_spec());
}

/// Its bare policy, as matches play it.
inline play::MakeMover bare() {
  static const std::unique_ptr<nets::Policy> policy =
      nets::make_policy(weights(), nets::Head::kIdentity, "champion.pth", game::mirror_of(kSees));
  return rollout::mover({std::nullopt, policy.get(), obs_spec(), false, true});
}

/// `per_game` boards of each of `games` games against `rival`, evenly over the game.
inline std::vector<game::State> boards(std::int64_t games, int per_game,
                                       game::Opponent rival = game::Opponent::kTerritory) {
  std::vector<std::vector<game::State>> of(static_cast<std::size_t>(games));
  play::MatchOptions options{games, 12};
  options.watch = [&](std::int64_t number, const game::State& state) {
    const int every = game::kMaxSteps / per_game;
    if (!state.done() && (state.step() + number) % every == 0)
      of[static_cast<std::size_t>(number)].push_back(state);
  };
  play::play_match(bare(), play::scripted(rival), options);
  std::vector<game::State> all;
  for (const auto& some : of) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace champion
