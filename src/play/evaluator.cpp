#include "snake_ddp/play/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/play/match.hpp"

namespace snake_ddp::play {
namespace {

float team_value(const Leaf& leaf, int team) {
  float sum = 0.0F;
  for (int i = team * game::kTeamSize; i < (team + 1) * game::kTeamSize; ++i)
    sum += leaf.q[i][best_move(leaf.q[i], leaf.open[i])];
  return sum / game::kTeamSize;
}

// What all six snakes see, as ObsSpec writes it, except for the constant. For the view, reach is
// computed once for both teams.
// Shapes  out [6, row].
void write_both(const ObsSpec& obs_spec, const game::State& state, float* out, std::size_t row) {
  if (game::is_view(obs_spec.kind) && obs_spec.view_radius == 0 && !obs_spec.tokens) {
    game::view::write_snakes(obs_spec.kind, state, 0, game::kSnakes, out, static_cast<int>(row));
    return;
  }
  for (int team = 0; team < 2; ++team, out += game::kTeamSize * row) obs_spec.write(state, team, out);
}

Values values_of(const QWeights& net) {
  return
      [&net, scratch = QScratch()](std::span<const game::State> /*boards*/,
                                   std::span<const std::size_t> places, const float* rows, float* q) mutable {
        forward(net, static_cast<std::int64_t>(places.size()) * game::kSnakes, rows, net.features + 1,
                scratch, q);
      };
}

}  // namespace

Evaluator::Evaluator(const QWeights& net, const ObsSpec& obs_spec, const Training& training)
    : Evaluator(values_of(net), obs_spec, training, kBoardsTogether) {
  SD_CHECK(
      net.features == obs_spec.features(),
      fmt::format("features of the network: {}, of the observation: {}", net.features, obs_spec.features()));
}

Evaluator::Evaluator(Values values, const ObsSpec& obs_spec, const Training& training,
                     std::size_t boards_together)
    : values_(std::move(values)),
      sight_(obs_spec),
      point_(static_cast<float>(training.point())),
      boards_together_(boards_together) {}

void Evaluator::operator()(std::span<const game::State> boards, std::span<Leaf> leaves) {
  SD_CHECK(boards.size() == leaves.size(),
           fmt::format("each board needs a leaf; boards: {}, leaves: {}", boards.size(), leaves.size()));
  const std::size_t row = static_cast<std::size_t>(sight_.features()) + 1;
  const std::size_t most = std::min(boards.size(), boards_together_);
  if (rows_.size() < most * game::kSnakes * row) {
    rows_.resize(most * game::kSnakes * row);
    q_.resize(most * game::kSnakes * game::kMoves);
  }
  const auto look_up =
      [this] {  // also where there is nothing to evaluate, so that no search goes on without it
        if (stop_ && stop_()) throw Cut();
      };
  look_up();
  for (std::size_t next = 0; next < boards.size(); look_up()) {
    places_.clear();
    for (; next < boards.size() && places_.size() < most; ++next) {
      if (boards[next].done()) {
        leaves[next] = Leaf{};
        std::fill(std::begin(leaves[next].open), std::end(leaves[next].open), kAllMoves);
        continue;
      }
      write_both(sight_, boards[next], rows_.data() + places_.size() * game::kSnakes * row, row);
      places_.push_back(next);
    }
    if (places_.empty()) return;
    values_(boards, places_, rows_.data(), q_.data());
    const float* q = q_.data();
    for (const std::size_t k : places_) {
      Leaf& leaf = leaves[k];
      const game::State& board = boards[k];
      for (int i = 0; i < game::kSnakes; ++i, q += game::kMoves) {
        game::to_directions(sight_.up(board, i), q, leaf.q[i]);
        leaf.open[i] = static_cast<std::uint8_t>(game::open_moves(board, i));
      }
      leaf.value = (team_value(leaf, 0) - team_value(leaf, 1)) / point_;
    }
  }
}

}  // namespace snake_ddp::play
