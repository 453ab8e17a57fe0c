// A searching team as a player of matches.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "snake_ddp/play/evaluator.hpp"
#include "snake_ddp/play/look.hpp"
#include "snake_ddp/play/match.hpp"
#include "snake_ddp/play/tree.hpp"

namespace snake_ddp::play {

/// How a team searches.
struct SearchSpec {
  enum class Kind { kNone, kLook, kPuct };  // kNone: the bare policy
  Kind kind = Kind::kLook;
  std::int64_t count = 4;    // samples, or simulations; 0 with a time limit
  double limit_ms = 0.0;     // per team move, on average over the boards played side by side; for kPuct
  float temperature = 0.2F;  // of the foes' moves in samples
  TreeOptions tree = {};     // its gamma is replaced by the training's
};

/// "look4", "puct400", "puct400x16", "puct@5ms".
std::optional<SearchSpec> try_spec(std::string_view text);
/// For messages and help.
inline constexpr const char* kSpecForms =
    "look<samples> (look4; 1 to 1000), puct<simulations> (puct400; 1 to 1000000), "
    "puct<simulations>x<leaves in a batch> (puct400x16; up to x1000), puct@<time>ms (puct@5ms; 0.01 to "
    "60000)";

/// A network and how to search with it.
struct Searcher {
  QWeights net;
  Training training;
  SearchSpec spec;
};

/// Throws  UsageError if the trees of a search on `boards` boards side by side would not fit into `available` bytes.
void check_memory(const SearchSpec& spec, std::int64_t boards, std::int64_t available);

/// The moves of team `team[k]` on each board k that is not finished. Its chance follows from the seed, the
/// number games[k] of its game, the step and the team.
/// Shapes  as Mover::act and explain; `reasons` may be empty.
void choose(const Searcher& searcher, const Evaluate& evaluate, std::span<const game::State> boards,
            std::span<const std::uint8_t> team, std::uint64_t seed, std::span<const std::uint64_t> games,
            std::span<game::Actions> actions, std::span<Reasons> reasons = {});

/// Moves depend only on the seed, the game and the board, however many boards are played side by side; with a time limit
/// also on the machine. If every snake of the team has only one open move, there is no search.
/// `stop`: if it is set and returns true, the mover throws Cut.
MakeMover mover(std::shared_ptr<const Searcher> searcher, const ObsSpec& obs_spec,
                const std::function<bool()>& stop = {});
/// A searching mover with values from elsewhere; the searcher's network is not used. Each mover has its own copy of the evaluator.
MakeMover mover(std::shared_ptr<const Searcher> searcher, const Evaluator& evaluator);

}  // namespace snake_ddp::play
