// Several opponents at once: each has boards of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/game/opponents.hpp"

namespace snake_ddp::game {

/// Who plays team B.
struct Rival {
  std::optional<Opponent> scripted;
  int frozen = kNobody;  // index of a frozen team: of a league, or, from kFirstFile on, of the mix's files

  static constexpr int kNobody = -1, kFirstFile = 500;
  [[nodiscard]] bool is_frozen() const { return frozen != kNobody; }
  [[nodiscard]] bool is_file() const { return frozen >= kFirstFile; }
  /// The policy that plays team A, in its current state.
  [[nodiscard]] bool is_self() const { return !scripted.has_value() && !is_frozen(); }
  bool operator==(const Rival&) const = default;
};

/// A rival as a number, for devices and files: a scripted one's own, kSelfCode for oneself, less for frozen teams.
inline constexpr std::int64_t kSelfCode = -1, kFirstFrozenCode = -2, kLastFrozenCode = -1002;
std::int64_t code_of(const Rival& rival);
/// Throws  Bug for a number that is none.
Rival rival_of(std::int64_t code);

struct Share {
  Rival rival;  // unless drawn from a league
  bool league = false;
  double weight = 1.0;                  // above 0; shares are weights over their sum
  std::string file = {};                // of a frozen team
  std::vector<std::string> words = {};  // about its weights, such as "softmax"
};
using Mix = std::vector<Share>;

/// "level2:0.7,self:0.3,file:PATH:0.5": scripted opponents, `self`, `league` and files with a network, each
/// at most once and with its weight (1 if omitted); words about a file's weights may follow its path, as in
/// "file:PATH:softmax:0.5". Files get the indices from kFirstFile on, in their
/// order. Empty text is an empty mix.
/// Throws  UsageError with the allowed forms.
Mix parse_mix(const std::string& text);

/// How many of `boards` boards each share gets: one, and the others one by one to the share that is farthest below its weight's part. They
/// are in the mix's order, so that each share has a range of boards.
/// Throws  UsageError if there are fewer boards than shares.
std::vector<std::int64_t> boards_of(const Mix& mix, std::int64_t boards);

/// The share of game number `game`, for callers whose games draw their opponents: a function of these arguments alone.
/// Throws  Bug for an empty mix.
const Share& drawn(const Mix& mix, std::uint64_t seed, std::uint64_t game);

/// The index of the weight that contains `unit`, which is in [0, 1).
/// Throws  Bug if no weight is above 0.
std::size_t place_of(double unit, const std::vector<double>& weights);

/// The scripted opponent's name, "self", or "frozen".
std::string_view name(const Rival& rival);
/// As in the mix, without its weight: "level2", "self", "league", "file:PATH".
std::string name(const Share& share);

/// For reports: a scripted opponent's place in kOpponents; then self, then a frozen team.
int level_of(const Rival& rival);

}  // namespace snake_ddp::game
