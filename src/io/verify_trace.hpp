// Checks the engine against games and observations recorded elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/game_log.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::io {

/// `first_mismatch` names file, line, game, step, field, the expected (recorded) and the actual value; empty
/// if there is none.
struct TraceReport {
  std::int64_t games, steps, mismatches;
  std::string first_mismatch;
};

/// Replays recorded games, traces or the platform's logs. Each step takes the actions and the random
/// outcomes (replaced directions, new beans) from the file; everything else must follow from our rules. If
/// a log does not record what a snake did in the step in which it died, any move that explains the rest is accepted. A
/// recorded outcome that the rules forbid is a mismatch, as is a game that ends too early or continues after its end. After a
/// mismatch the rest of that game is skipped.
/// Throws      FileError with the line number if a file cannot be read or a value has the wrong format.
TraceReport verify_traces(const std::vector<std::string>& files);

/// The boards of a recorded game from its start on, replayed as verify_traces does, so they are the game's exact boards.
/// Throws      FileError that names `file`, line, step and field if a step does not follow from the one before.
std::vector<game::State> boards_of(const RecordedGame& record, const std::string& file);

struct EncodingReport {
  std::int64_t states, mismatches;
  std::string first_mismatch;
};

/// Compares observations, opponents' actions and shaped rewards with recorded ones; numbers to 1e-5
/// relative or absolute. `traces` is the file with the games that the encodings refer to by number (from 0) and
/// step (0 is the start).
/// Throws      FileError as above.
EncodingReport verify_encodings(const std::string& encodings, const std::string& traces);

}  // namespace snake_ddp::io
