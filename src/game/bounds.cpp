#include "snake_ddp/game/bounds.hpp"

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::game {
namespace {

// The features in their order. Products are computed as `observe` does, so that they round alike.
class Listed {
 public:
  void add(int count, float low, float high) {
    bounds_.low.insert(bounds_.low.end(), static_cast<std::size_t>(count), low);
    bounds_.high.insert(bounds_.high.end(), static_cast<std::size_t>(count), high);
  }
  void flags(int count) { add(count, 0.0F, 1.0F); }
  void cells(int count) {
    for (; count > 0; --count) {
      add(1, 0.0F, static_cast<float>(kRows - 1));
      add(1, 0.0F, static_cast<float>(kCols - 1));
    }
  }
  Bounds bounds() && { return std::move(bounds_); }

 private:
  Bounds bounds_;
};

void add_plain(ObsKind kind, Listed& list) {
  list.cells(1);
  list.add(kMoves, 0.0F, 7.0F);  // codes of the neighbouring cells
  if (kind == ObsKind::k26) {
    list.cells(kBeans + kSnakes - 1);
    return;
  }
  for (int bean = 0; bean < 2; ++bean) {
    list.add(1, -static_cast<float>(kCols / 2), static_cast<float>(kCols / 2));
    list.add(1, -static_cast<float>(kRows / 2), static_cast<float>(kRows / 2));
    list.add(1, 0.0F, 40.0F);  // a missing bean
  }
  list.add(kTeamSize - 1, 0.0F, static_cast<float>(kCells) / 3.0F);
  list.cells(kBeans);
  list.add(2, 0.0F, 0.0F);
  list.cells(kTeamSize - 1);
}

void add_window(ObsKind kind, Listed& list) {
  constexpr float kLength = static_cast<float>(kCells) * 0.1F;
  // Half a side in one direction, one less in the other; a turned view has the longer side either way.
  const int rows = kind == ObsKind::kAhead ? kCols : kRows;
  constexpr float kLeft = static_cast<float>(1 - kCols / 2) * 0.2F,
                  kRight = static_cast<float>(kCols / 2) * 0.2F;
  const float up = static_cast<float>(1 - rows / 2) * 0.2F, down = static_cast<float>(rows / 2) * 0.2F;
  list.flags(view::kWindow);
  list.add(view::kWindow, 0.0F, kLength);  // ages
  list.flags(3 * view::kWindow);
  for (int bean = 0; bean < kBeans; ++bean) {
    list.add(1, kLeft, kRight);
    list.add(1, up, down);
  }
  for (int other = 0; other < kSnakes - 1; ++other) {
    list.add(1, kLeft, kRight);
    list.add(1, up, down);
    list.add(1, -kLength, kLength);
  }
  list.flags(kMoves);
  list.add(1, 0.0F, kLength);
  list.add(1, 0.005F, static_cast<float>(kMaxSteps + 1) * 0.005F);
  list.add(1, -kLength, kLength);  // the lead
}

void add_move_features(Listed& list) {
  for (int move = 0; move < kMoves; ++move) {
    for (const float most : view::kMostMoveFeatures) list.add(1, 0.0F, most);
  }
}

}  // namespace

Bounds feature_bounds(ObsKind kind) {
  Listed list;
  if (is_view(kind)) {
    add_window(kind, list);
    if (has_move_features(kind)) add_move_features(list);
  } else {
    add_plain(kind, list);
  }
  Bounds bounds = std::move(list).bounds();
  SD_CHECK(static_cast<int>(bounds.low.size()) == obs_size(kind), std::to_string(bounds.low.size()));
  return bounds;
}

}  // namespace snake_ddp::game
