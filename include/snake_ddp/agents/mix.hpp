// Several opponents at once: each game draws one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/agents/opponents.hpp"

namespace snake_ddp::agents {

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

/// The share of game number `game`: a function of these arguments alone.
/// Throws  Bug for an empty mix.
const Share& drawn(const Mix& mix, std::uint64_t seed, std::uint64_t game);

/// The index of the weight that contains `unit`, which is in [0, 1).
/// Throws  Bug if no weight is above 0.
std::size_t place_of(double unit, const std::vector<double>& weights);

/// The scripted opponent's name, "self", or "frozen".
std::string_view name(const Rival& rival);

/// For reports: a scripted opponent's place in kOpponents; then self, then a frozen team.
int level_of(const Rival& rival);

}  // namespace snake_ddp::agents
