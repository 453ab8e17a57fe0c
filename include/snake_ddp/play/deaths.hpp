// Why snakes die: one cause for each death, and the length that it cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "snake_ddp/game/state.hpp"

namespace snake_ddp::play {

/// A safe move is not a reversal, does not lead into a segment that may be there after the step, and no other head can
/// get to its cell in that step. A way out is a move that is not fatal (encode/moves.hpp).
enum class Death : std::uint8_t {
  kHeadOnLongerSafe,
  kHeadOnEqualSafe,
  kHeadOnShorterSafe,
  kHeadOnLongerForced,
  kHeadOnEqualForced,
  kHeadOnShorterForced,
  kBoxedByFoe,
  kBoxedByMate,
  kBoxedByItself,
  kFoesTail,
  kFoesBody,
  kOwnBody,
  kMatesHead,
  kMatesTail,
  kMatesBody,
};

struct DeathEntry {
  std::string_view name;   // in JSON
  std::string_view group;  // in TensorBoard, as deaths/<group>
  std::string_view text;
};

/// By Death.
inline constexpr DeathEntry kDeaths[] = {
    {"head_on_longer_safe", "head_on", "head-on with a shorter foe, with a safe move open"},
    {"head_on_equal_safe", "head_on", "head-on with a foe of its length, with a safe move open"},
    {"head_on_shorter_safe", "head_on", "head-on with a longer foe, with a safe move open"},
    {"head_on_longer_forced", "head_on", "head-on with a shorter foe, without a safe move"},
    {"head_on_equal_forced", "head_on", "head-on with a foe of its length, without a safe move"},
    {"head_on_shorter_forced", "head_on", "head-on with a longer foe, without a safe move"},
    {"boxed_in_by_foe", "boxed_in", "boxed in, a foe among the walls"},
    {"boxed_in_by_mate", "boxed_in", "boxed in by a mate"},
    {"boxed_in_by_itself", "boxed_in", "boxed in by its own body"},
    {"foes_tail", "tail", "a foe's tail that stayed because the foe ate"},
    {"foes_body", "body", "a foe's body, with a way out"},
    {"own_body", "body", "its own body, with a way out"},
    {"mates_head", "mate", "head-on with a mate"},
    {"mates_tail", "mate", "a mate's tail that stayed because the mate ate"},
    {"mates_body", "mate", "a mate's body, with a way out"},
};
inline constexpr std::size_t kDeathKinds = std::size(kDeaths);

struct DeathGroup {
  std::string_view name, text;
};
inline constexpr DeathGroup kDeathGroups[] = {{"head_on", "head-on with a foe"},
                                              {"boxed_in", "boxed in"},
                                              {"tail", "a foe's tail that stayed"},
                                              {"body", "a foe's body, or its own"},
                                              {"mate", "a mate's head, tail or body"}};

/// The cause of death of `snake`, which died in the step that `turned` describes. The first that applies: boxed in (no
/// way out), a tail or body in the cell, a foe's head there (the longest one's), a mate's head. Lengths are those before
/// the step.
/// Throws  Bug if the snake did not die in this step.
Death why_died(const game::State& before, const game::StepResult& played, int snake);

/// Early is up to this step of the game, counted from 1.
inline constexpr int kLastEarlyStep = game::kMaxSteps / 2;

/// A team's deaths and the length lost to them (above the length to which a snake returns), by cause, early and late.
struct DeathSums {
  struct Sum {
    std::int64_t deaths = 0, length = 0;
    bool operator==(const Sum&) const = default;
  };
  Sum of[kDeathKinds][2];  // [cause][late]

  void add(const DeathSums& other);
  [[nodiscard]] Sum total(int late) const;
  [[nodiscard]] Sum total() const;
  [[nodiscard]] Sum group(std::string_view name) const;
  bool operator==(const DeathSums&) const = default;
};

/// Adds the deaths of `team` in one step.
void count_deaths(const game::State& before, const game::StepResult& played, int team, DeathSums& sums);

}  // namespace snake_ddp::play
