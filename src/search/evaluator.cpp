#include "snake_ddp/search/evaluator.hpp"

#include <algorithm>
#include <array>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/encode/moves.hpp"

namespace snake_ddp::search {
namespace {

float team_value(const Leaf& leaf, int team) {
  float sum = 0.0F;
  for (int i = team * game::kTeamSize; i < (team + 1) * game::kTeamSize; ++i)
    sum += leaf.q[i][play::best_move(leaf.q[i], leaf.open[i])];
  return sum / game::kTeamSize;
}

// What all six snakes see, as play::Sight writes it, except for the constant. For the view, reach is
// computed once for both teams.
// Shapes  out [6, row].
void write_both(const play::Sight& sight, const game::State& state, float* out, std::size_t row) {
  if (encode::is_view(sight.kind) && sight.view_radius == 0 && !sight.graphs) {
    encode::view::write_snakes(sight.kind, state, 0, game::kSnakes, out, static_cast<int>(row));
    return;
  }
  for (int team = 0; team < 2; ++team, out += game::kTeamSize * row) sight.write(state, team, out);
}

}  // namespace

Evaluator::Evaluator(const QWeights& net, const play::Sight& sight, const Training& training)
    : net_(&net),
      sight_(sight),
      point_(static_cast<float>(training.point())),
      rows_(kBoardsTogether * game::kSnakes * static_cast<std::size_t>(sight.features() + 1)),
      q_(kBoardsTogether * game::kSnakes * game::kMoves) {
  SD_CHECK(net.features == sight.features(), "a network for what is seen");
}

void Evaluator::operator()(std::span<const game::State> boards, std::span<Leaf> leaves) {
  SD_CHECK(boards.size() == leaves.size(), "a leaf for each board");
  const std::size_t row = static_cast<std::size_t>(sight_.features()) + 1;
  std::array<std::size_t, kBoardsTogether> chunk;
  for (std::size_t next = 0; next < boards.size();) {
    std::size_t count = 0;
    for (; next < boards.size() && count < kBoardsTogether; ++next) {
      if (boards[next].done()) {
        leaves[next] = Leaf{};
        std::fill(std::begin(leaves[next].open), std::end(leaves[next].open), play::kAllMoves);
        continue;
      }
      write_both(sight_, boards[next], rows_.data() + count * game::kSnakes * row, row);
      chunk[count++] = next;
    }
    forward(*net_, static_cast<std::int64_t>(count * game::kSnakes), rows_.data(),
            static_cast<std::int64_t>(row), scratch_, q_.data());
    for (std::size_t k = 0; k < count; ++k) {
      Leaf& leaf = leaves[chunk[k]];
      const game::State& board = boards[chunk[k]];
      const float* q = q_.data() + k * game::kSnakes * game::kMoves;
      for (int i = 0; i < game::kSnakes; ++i, q += game::kMoves) {
        encode::to_directions(sight_.up(board, i), q, leaf.q[i]);
        leaf.open[i] = static_cast<std::uint8_t>(encode::open_moves(board, i));
      }
      leaf.value = (team_value(leaf, 0) - team_value(leaf, 1)) / point_;
    }
  }
}

}  // namespace snake_ddp::search
