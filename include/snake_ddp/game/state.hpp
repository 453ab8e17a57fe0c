// A board and its parts, without the rules. A torus of 10 x 20 cells, cell = row * 20 + column; snakes 0..2 are team A
// (team 0), 3..5 team B (team 1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "snake_ddp/core/bits.hpp"
#include "snake_ddp/core/host_device.hpp"

namespace snake_ddp::game {

inline constexpr int kRows = 10, kCols = 20, kCells = 200;
inline constexpr int kSnakes = 6, kTeamSize = 3, kMoves = 4, kBeans = 5, kMaxSteps = 200, kStartLength = 3;

/// Actions and directions: row - 1, row + 1, column - 1, column + 1. `direction ^ 1` is the opposite one.
enum : std::uint8_t { kUp, kDown, kLeft, kRight };
inline constexpr std::array<std::string_view, kMoves> kDirectionNames{"up", "down", "left", "right"};

/// A snake's name: A to C are team A, D to F team B.
constexpr char letter(int snake) { return static_cast<char>('A' + snake); }

/// One action per snake, each 0..3.
struct Actions {
  std::uint8_t of[kSnakes];
};

SD_HD constexpr int row_of(int cell) { return static_cast<int>(static_cast<unsigned>(cell) / kCols); }
SD_HD constexpr int column_of(int cell) { return static_cast<int>(static_cast<unsigned>(cell) % kCols); }

/// A segment's link points to the next segment towards the head: one of the four directions, or one of
/// the two gaps that a snake may have after it respawns (its head is then between its other two cells).
enum : std::uint8_t { kTwoRight = 4, kTwoDown = 5, kLinks = 6 };

/// The cell that `link` points to, on the torus.
SD_HD constexpr int follow_slowly(int cell, int link) {
  const int row = row_of(cell), column = column_of(cell);
  switch (link) {
    case kUp:
      return row == 0 ? cell + kCells - kCols : cell - kCols;
    case kDown:
      return row == kRows - 1 ? cell - kCells + kCols : cell + kCols;
    case kLeft:
      return column == 0 ? cell + kCols - 1 : cell - 1;
    case kRight:
      return column == kCols - 1 ? cell - kCols + 1 : cell + 1;
    case kTwoRight:
      return column >= kCols - 2 ? cell - kCols + 2 : cell + 2;
    default:
      return row >= kRows - 2 ? cell - kCells + 2 * kCols : cell + 2 * kCols;
  }
}

struct LinkTable {
  std::uint8_t cell[kLinks][256];
};

constexpr LinkTable make_link_table() {
  LinkTable t{};
  for (int link = 0; link < kLinks; ++link)
    for (int c = 0; c < kCells; ++c) t.cell[link][c] = static_cast<std::uint8_t>(follow_slowly(c, link));
  return t;
}
inline constexpr LinkTable kLinkTable = make_link_table();

/// The cell one step from `cell` in a direction, or over a link. A table on the host, arithmetic on the
/// device.
SD_HD inline int follow(int cell, int link) {
#ifdef __CUDA_ARCH__
  return follow_slowly(cell, link);
#else
  return kLinkTable.cell[link][cell];
#endif
}

/// A board. Trivially copyable, 256 bytes; use the functions, the fields are the layout.
/// A body is a chain of links from tail to head, so a move touches three cells however long the snake is.
/// A snake that could not respawn (then the game is done) has length 0 and, for features, is at cell 0.
struct alignas(64) State {
  std::uint8_t cells[kCells];   // code | link << 3; 0 is a free cell, 1 a bean; a head's link is 0
  std::uint8_t heads[kSnakes];  // 0 for an empty snake, as are tails, lengths
  std::uint8_t tails[kSnakes];
  std::uint8_t lengths[kSnakes];
  std::uint8_t directions[kSnakes];
  std::uint8_t beans[kBeans];  // list order; 0 from n_beans on
  std::uint8_t n_beans;
  std::uint16_t steps;
  std::int32_t returns[2];
  bool is_done;

  SD_HD int length(int snake) const { return lengths[snake]; }
  SD_HD int head(int snake) const { return heads[snake]; }
  SD_HD int direction(int snake) const { return directions[snake]; }
  SD_HD int bean_count() const { return n_beans; }
  SD_HD int bean(int i) const { return beans[i]; }
  /// 0 empty, 1 bean, 2..7 snake 0..5.
  SD_HD int code(int cell) const { return cells[cell] & 7; }
  /// 1 after reset; the number of the next step.
  SD_HD int step() const { return steps; }
  SD_HD bool done() const { return is_done; }
  /// Sum of the step rewards of the team's snakes since reset.
  SD_HD int team_return(int team) const { return returns[team]; }

  /// The k-th segment, 0 the head. Cost: a walk from the tail; to visit all use `body`.
  SD_HD int cell(int snake, int k) const {
    int c = tails[snake];
    for (int left = lengths[snake] - 1 - k; left > 0; --left) c = follow(c, cells[c] >> 3);
    return c;
  }
  /// Writes the snake's cells, head first, and returns how many; `out` has room for 200.
  SD_HD int body(int snake, std::uint8_t* out) const {
    int c = tails[snake];
    for (int k = lengths[snake] - 1; k >= 0; --k) {
      out[k] = static_cast<std::uint8_t>(c);
      c = follow(c, cells[c] >> 3);
    }
    return lengths[snake];
  }
  SD_HD int segments() const {
    int n = 0;
    for (int i = 0; i < kSnakes; ++i) n += lengths[i];
    return n;
  }
  /// Cells with neither bean nor snake.
  SD_HD int free_cells() const { return kCells - segments() - n_beans; }
  /// The r-th free cell in index order, 0 <= r < free_cells().
  SD_HD int nth_free(int r) const;

  bool operator==(const State&) const = default;
};
// Checkpoints, board sets and other languages depend on the layout.
static_assert(sizeof(State) == 256 && offsetof(State, cells) == 0 && offsetof(State, heads) == 200 &&
              offsetof(State, tails) == 206 && offsetof(State, lengths) == 212 &&
              offsetof(State, directions) == 218 && offsetof(State, beans) == 224 &&
              offsetof(State, n_beans) == 229 && offsetof(State, steps) == 230 &&
              offsetof(State, returns) == 232 && offsetof(State, is_done) == 240);

/// The highest bit of each byte of `cells[8 w .. 8 w + 7]` that is zero.
SD_HD inline std::uint64_t free_bytes(const std::uint8_t* cells, int w) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fULL;
  std::uint64_t v;
  memcpy(&v, cells + 8 * w, 8);
  return ~(((v & kLow) + kLow) | v | kLow);
}

SD_HD_APART inline int State::nth_free(int r) const {
  SD_ROLLED for (int w = 0; w < kCells / 8; ++w) {
    std::uint64_t bytes = free_bytes(cells, w);
    const int n = core::count_bits(bytes);
    if (r < n) {
      for (; r > 0; --r) bytes &= bytes - 1;
      return 8 * w + (core::lowest_bit(bytes) >> 3);
    }
    r -= n;
  }
  return -1;
}

/// What a step did. `turned` is the direction that each snake took; `hit` is 1 if it died in this step.
struct StepResult {
  std::int16_t reward[kSnakes];
  std::uint8_t hit[kSnakes];
  std::uint8_t turned[kSnakes];
  bool done;
};

}  // namespace snake_ddp::game
