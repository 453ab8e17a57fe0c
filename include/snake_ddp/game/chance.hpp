// Sources of chance for the game. A Chance provides, in the order in which the rules call them:
//   void  begin_reset()            a new board is set up
//   Start start(state, snake)      a tail cell and a direction to grow in; called again until it fits
//   void  begin_step(state)        a step begins
//   uint8 turn(snake, forbidden)   a direction other than `forbidden`; called for every snake, used only if the
//                                  snake's action is a reversal
//   int   bean(state)              a free cell for a new bean
#pragma once

#include <cstdint>

#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::game {

struct Start {
  int cell;
  std::uint8_t direction;
};

/// Counter-based chance: draws are a pure function of (seed, stream, state.step(), purpose), independent of
/// earlier draws. `stream` identifies one game. A new one may be constructed for every step.
class PhiloxChance {
 public:
  SD_HD PhiloxChance(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  SD_HD void begin_reset() { begin(0, core::Purpose::kReset); }
  SD_HD Start start(const State&, int /*snake*/) {
    const std::uint32_t draw = core::below(word(), kCells * 4);
    return {static_cast<int>(draw >> 2), static_cast<std::uint8_t>(draw & 3)};
  }
  SD_HD void begin_step(const State& state) {
    begin(static_cast<std::uint32_t>(state.step()), core::Purpose::kStep);
    used_ = 1;  // word 0 is for the turns
  }
  /// Digit `snake` of word 0 read as a fraction in base 3.
  SD_HD std::uint8_t turn(int snake, std::uint8_t forbidden) const {
    constexpr std::uint32_t kPower[kSnakes] = {1, 3, 9, 27, 81, 243};
    const std::uint32_t digit = core::below(block_.word[0] * kPower[snake], 3);
    return static_cast<std::uint8_t>(digit + (digit >= forbidden ? 1 : 0));
  }
  SD_HD int bean(const State& state) {
    return state.nth_free(
        static_cast<int>(core::below(word(), static_cast<std::uint32_t>(state.free_cells()))));
  }

 private:
  SD_HD void begin(std::uint32_t counter, core::Purpose purpose) {
    counter_ = counter;
    purpose_ = purpose;
    used_ = 0;
    block_ = core::random_block(seed_, stream_, counter_, purpose_);
  }
  SD_HD std::uint32_t word() {
    if (used_ == 4) {
      counter_ += 1U << 16;  // further blocks of the same step
      used_ = 0;
      block_ = core::random_block(seed_, stream_, counter_, purpose_);
    }
    return block_.word[used_++];
  }

  std::uint64_t seed_, stream_;
  std::uint32_t counter_ = 0;
  core::Purpose purpose_ = core::Purpose::kReset;
  std::uint32_t used_ = 0;
  core::RandomBlock block_{};
};

/// GraphCapture chance for one step: the directions taken, and the list of beans after the step, with the new ones
/// at its end. Anything that the rules forbid (a bean on a taken cell or outside, too few beans)
/// is noted in `illegal` and replaced, as is a direction that is a reversal or above 3, so that the step ends
/// legally; the caller detects replaced directions by comparing `turned` with the step's result.
struct RecordedChance {
  std::uint8_t turned[kSnakes] = {};
  const int* beans = nullptr;
  int n_beans = 0;
  const char* illegal = nullptr;  // the first violation; null if there was none

  void begin_step(const State&) {}
  std::uint8_t turn(int snake, std::uint8_t forbidden) const;
  int bean(const State& state);
};

}  // namespace snake_ddp::game
