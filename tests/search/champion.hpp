// The trained network that the tests search with, and boards of its games.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "snake_ddp/encode/mirror.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/rollout/player.hpp"
#include "snake_ddp/search/mover.hpp"
#include "test_data.hpp"

namespace champion {

using namespace snake_ddp;

inline const files::NamedTensors& weights() {
  static const files::NamedTensors all = files::load_state_dict(test_data("../../models/champion.pth"));
  return all;
}

inline constexpr encode::ObsKind kSees = encode::ObsKind::kAhead;
inline play::Sight sight() { return {kSees}; }

inline const search::QWeights& net() {
  static const search::QWeights all = [] {
    search::QWeights read = rollout::search_weights(weights(), "champion.pth");
    search::fold_if_symmetric(read, encode::mirror_of(kSees));
    return read;
  }();
  return all;
}

inline search::Evaluator evaluator() { return {net(), sight(), {}}; }

inline play::MakeMover searching(const search::Spec& spec) {
  return search::mover(std::make_shared<const search::Player>(search::Player{net(), {}, spec}), sight());
}

/// Its bare policy, as matches play it.
inline play::MakeMover bare() {
  static const std::unique_ptr<nets::Policy> policy =
      nets::make_policy(weights(), nets::Head::kIdentity, "champion.pth", encode::mirror_of(kSees));
  return rollout::mover({std::nullopt, policy.get(), sight(), false, true});
}

/// `per_game` boards of each of `games` games against `rival`, evenly over the game.
inline std::vector<game::State> boards(std::int64_t games, int per_game,
                                       agents::Opponent rival = agents::Opponent::kTerritory) {
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
