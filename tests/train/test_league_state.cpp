#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/observation.hpp"
#include "train/league.hpp"

namespace {

using namespace snake_ddp;
using nets::NamedTensors;

train::LeagueOptions options() {
  train::LeagueOptions o;
  o.scripted = {game::Opponent::kLevel0, game::Opponent::kTerritory};
  o.obs_spec.kind = game::ObsKind::kView;
  return o;
}

NamedTensors weights(std::uint64_t seed) {
  learners::LearnerOptions o;
  o.algo = "dqn";
  o.features = game::obs_size(game::ObsKind::kView);
  o.hidden_size = 4;
  o.seed = seed;
  return learners::make_learner(o)->exported_actor();
}

// Two scripted members and two copies, of which the later one has the first place; the hardest is #48.
NamedTensors state_of_four() {
  const auto whole = [](std::vector<std::int64_t> values) { return at::tensor(values, at::kLong); };
  NamedTensors state = {
      {"places", whole({-1, -1 - static_cast<std::int64_t>(game::Opponent::kTerritory), 1, 0})},
      {"episodes", whole({0, 0, 16, 48})},
      {"hardness", at::tensor({0.125, 0.25, 0.375, 0.75}, at::kDouble)},
      {"met", whole({0, 1, 10, 2, 88, 2, 0, 60, 3, 37, 2, 1, 50, 0, 50,
                     3, 0, 90, 1, 9,  3, 1, 70, 0, 30, 3, 2, 66, 4, 30})},
      {"judgements", at::scalar_tensor(12, at::kLong)}};
  for (const int place : {0, 1})
    for (const auto& [name, tensor] : weights(static_cast<std::uint64_t>(place) + 7))
      state.emplace_back("frozen." + std::to_string(place) + "." + name, tensor);
  return state;
}

}  // namespace

TEST_CASE("a league's state without a part, or with impossible values, is refused", "[unit]") {
  const NamedTensors kept = state_of_four();
  train::League league(options());
  for (std::size_t k = 0; k < 5; ++k) {
    CAPTURE(kept[k].first);
    NamedTensors without = kept;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(k));
    CHECK_THROWS_WITH(league.restore(without, "state"), Catch::Contains("state has no \"" + kept[k].first));
    NamedTensors shorter = kept;
    shorter[k].second = shorter[k].second.reshape({-1}).slice(0, 0, shorter[k].second.numel() - 1);
    CHECK_THROWS_AS(league.restore(shorter, "state"), core::FileError);
  }
}
