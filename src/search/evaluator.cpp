#include "snake_ddp/search/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/moves.hpp"

namespace snake_ddp::search {
namespace {

constexpr std::size_t kChunk = 16;  // boards, 96 rows: what the second-level cache holds beside the weights

float team_value(const Leaf& leaf, int team) {
  float sum = 0.0F;
  for (int i = team * game::kTeamSize; i < (team + 1) * game::kTeamSize; ++i)
    sum += leaf.q[i][play::best_move(leaf.q[i], leaf.open[i])];
  return sum / game::kTeamSize;
}

}  // namespace

Evaluator::Evaluator(const QWeights& net, const play::Sight& sight, const Training& training)
    : net_(&net),
      sight_(sight),
      unit_(static_cast<float>((1.0 + training.rival_reward) * training.reward_scale)),
      rows_(kChunk * game::kSnakes * static_cast<std::size_t>(sight.features() + 1)),
      q_(kChunk * game::kSnakes * game::kMoves) {
  SD_CHECK(net.features == sight.features(), "a network for what is seen");
}

void Evaluator::operator()(std::span<const game::State> boards, std::span<Leaf> leaves) {
  SD_CHECK(boards.size() == leaves.size(), "a leaf for each board");
  const std::size_t row = static_cast<std::size_t>(sight_.features()) + 1,
                    team_floats = game::kTeamSize * row;
  std::array<std::size_t, kChunk> chunk;
  for (std::size_t next = 0; next < boards.size();) {
    std::size_t count = 0;
    for (; next < boards.size() && count < kChunk; ++next) {
      if (boards[next].done()) {
        leaves[next] = Leaf{};
        std::fill(std::begin(leaves[next].open), std::end(leaves[next].open), play::kAllMoves);
        continue;
      }
      for (int team = 0; team < 2; ++team)
        sight_.write(boards[next], team,
                     rows_.data() + (2 * count + static_cast<std::size_t>(team)) * team_floats);
      chunk[count++] = next;
    }
    forward(*net_, static_cast<std::int64_t>(count * game::kSnakes), rows_.data(),
            static_cast<std::int64_t>(row), scratch_, q_.data());
    for (std::size_t k = 0; k < count; ++k) {
      Leaf& leaf = leaves[chunk[k]];
      std::memcpy(leaf.q, q_.data() + k * game::kSnakes * game::kMoves, sizeof leaf.q);
      for (int i = 0; i < game::kSnakes; ++i)
        leaf.open[i] = static_cast<std::uint8_t>(encode::open_moves(boards[chunk[k]], i));
      leaf.value = (team_value(leaf, 0) - team_value(leaf, 1)) / unit_;
    }
  }
}

}  // namespace snake_ddp::search
