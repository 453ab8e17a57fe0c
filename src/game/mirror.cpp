#include "snake_ddp/game/mirror.hpp"

#include "snake_ddp/game/observation.hpp"

namespace snake_ddp::game {
namespace {

int mirrored_move(int move) { return move < kLeft ? move : kLeft + kRight - move; }

}  // namespace

core::Mirror mirror_of(ObsKind kind) {
  std::vector<core::MirrorImage> all, moves;
  if (!is_view(kind)) return {};
  for (int move = 0; move < kMoves; ++move) moves.push_back({mirrored_move(move)});
  for (int feature = 0; feature < obs_size(kind); ++feature) all.push_back({feature});
  for (int row = 0; row < view::kBeans; row += view::kSide) {
    for (int k = 0; k < view::kSide; ++k)
      all[static_cast<std::size_t>(row + k)].of = row + view::kSide - 1 - k;
  }
  // Offsets to the right.
  for (int bean = view::kBeans; bean < view::kMates; bean += 2) all[static_cast<std::size_t>(bean)].sign = -1;
  for (int other = view::kMates; other < view::kHeading; other += 3)
    all[static_cast<std::size_t>(other)].sign = -1;
  if (kind != ObsKind::kAhead) {
    for (int d = 0; d < kMoves; ++d)
      all[static_cast<std::size_t>(view::kHeading + d)].of = view::kHeading + mirrored_move(d);
  }
  for (int feature = view::kFeatures; feature < obs_size(kind); ++feature) {
    const int of_move = feature - view::kFeatures;
    all[static_cast<std::size_t>(feature)].of =
        view::kFeatures + mirrored_move(of_move / view::kMoveFeatures) * view::kMoveFeatures +
        of_move % view::kMoveFeatures;
  }
  return {all, moves};
}

}  // namespace snake_ddp::game
