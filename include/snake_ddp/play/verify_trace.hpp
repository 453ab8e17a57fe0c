// Holds the engine against games and observations recorded elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snake_ddp::play {

/// `first_mismatch` names file, line, game, step, field, what was expected (recorded) and what we got; empty
/// at 0.
struct TraceReport {
  std::int64_t games, steps, mismatches;
  std::string first_mismatch;
};

/// Replays recorded games, traces or the platform's logs. Each step takes the actions and the outcomes of
/// chance (replaced directions, new beans) from the file; all else must be what our rules make of them. Where
/// a log does not tell what a snake did in the step in which it died, any move that explains the rest will do. Recorded chance that the rules
/// forbid is a mismatch, as is a game that ends too early or goes on after its end. After a mismatch the
/// rest of that game is skipped.
/// Throws      FileError with the line number where a file cannot be read or a value is not of the format.
TraceReport verify_traces(const std::vector<std::string>& files);

struct EncodingReport {
  std::int64_t states, mismatches;
  std::string first_mismatch;
};

/// Compares observations, opponents' actions and shaped rewards with recorded ones; numbers to 1e-5
/// relative or absolute. `traces` is the file with the games that the encodings name by number (from 0) and
/// step (0 the start).
/// Throws      FileError as above.
EncodingReport verify_encodings(const std::string& encodings, const std::string& traces);

}  // namespace snake_ddp::play
