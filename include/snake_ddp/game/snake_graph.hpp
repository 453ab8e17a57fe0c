// A snake and its surroundings as the nodes of a graph, for the tokenizer; docs/learners/pretrain.md has the layout.
#pragma once

#include <cstdint>

#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

/// Nodes of one snake's graph: its first cells from the head, then beans, team mates' heads and opponents' heads, each by
/// distance. A node is `present, dx, dy, length`: columns and rows from the snake's head on the torus, x 0.1 and x 0.2;
/// for heads the snake's length x 0.1. A missing node is four zeros.
inline constexpr int kBodyNodes = 8, kBeanNodes = kBeans, kMateNodes = kTeamSize - 1, kFoeNodes = kTeamSize;
inline constexpr int kGraphNodes = kBodyNodes + kBeanNodes + kMateNodes + kFoeNodes, kNodeFeatures = 4;
inline constexpr int kGraphFloats = kGraphNodes * kNodeFeatures, kGraphsFloats = kSnakes * kGraphFloats;
inline constexpr float kColumnScale = 0.1F, kRowScale = 0.2F, kLengthScale = 0.1F;

/// The observer's position and range: cells at most `radius` rows and columns from `cell` on the torus are visible. With
/// radius 0 all are.
struct Viewer {
  int cell = 0;
  int radius = 0;

  SD_HD bool sees(int other) const {
    if (radius == 0) return true;
    const int dy = view::turned(row_of(other) - row_of(cell), kRows),
              dx = view::turned(column_of(other) - column_of(cell), kCols);
    return dx <= radius && -dx <= radius && dy <= radius && -dy <= radius;
  }
};

/// The six snakes' graphs as `eye` sees them, those of `team` first, otherwise in index order. A snake whose head is not visible
/// has no node.
/// Shapes   out [6, kGraphNodes, kNodeFeatures], every element is written; `hidden` [6]: 1 if the head is not visible,
///          or the snake is not on the board.
SD_HD_APART inline void write_graphs(const State& state, int team, Viewer eye, float* out, float* hidden) {
  const auto put = [](float* node, int dx, int dy, float length) {
    node[0] = 1.0F;
    node[1] = static_cast<float>(dx) * kColumnScale;
    node[2] = static_cast<float>(dy) * kRowScale;
    node[3] = length;
  };
  const auto key_from = [](int from, int cell) { return view::key_of(view::offset_of(kUp, cell, from)); };
  memset(out, 0, sizeof(float) * kGraphsFloats);
  for (int place = 0; place < kSnakes; ++place) {
    const int snake = (place + team * kTeamSize) % kSnakes;
    float* const graph = out + place * kGraphFloats;
    const int head = state.head(snake);
    const bool seen = state.length(snake) > 0 && eye.sees(head);
    hidden[place] = seen ? 0.0F : 1.0F;
    if (!seen) continue;
    std::uint8_t cells[kCells];
    const int length = state.body(snake, cells);
    for (int k = 0; k < length && k < kBodyNodes; ++k) {
      if (!eye.sees(cells[k])) continue;
      const int key = key_from(head, cells[k]);
      put(graph + k * kNodeFeatures, view::dx_of(key), view::dy_of(key),
          k == 0 ? static_cast<float>(length) * kLengthScale : 0.0F);
    }
    // The others, nearest first: the key's order is by distance.
    int keys[kBeanNodes];
    for (int b = 0; b < kBeanNodes; ++b) {
      const bool there = b < state.bean_count() && eye.sees(state.bean(b));
      keys[b] = there ? key_from(head, state.bean(b)) : view::kMissing;
    }
    view::sort(keys);
    float* node = graph + kBodyNodes * kNodeFeatures;
    for (int b = 0; b < kBeanNodes; ++b, node += kNodeFeatures)
      if (keys[b] != view::kMissing) put(node, view::dx_of(keys[b]), view::dy_of(keys[b]), 0.0F);
    const auto put_heads = [&](auto& heads, int first) {
      int count = 0;
      for (int other = first; other < first + kTeamSize; ++other) {
        if (other == snake) continue;
        const bool there = state.length(other) > 0 && eye.sees(state.head(other));
        heads[count++] =
            there ? key_from(head, state.head(other)) << 8 | state.length(other) : view::kMissing << 8;
      }
      view::sort(heads);
      for (const int key : heads) {
        if (key != view::kMissing << 8)
          put(node, view::dx_of(key >> 8), view::dy_of(key >> 8),
              static_cast<float>(key & 255) * kLengthScale);
        node += kNodeFeatures;
      }
    };
    const int own = snake / kTeamSize * kTeamSize;
    int mates[kMateNodes], foes[kFoeNodes];
    put_heads(mates, own);
    put_heads(foes, kTeamSize - own);
  }
}

}  // namespace snake_ddp::game
