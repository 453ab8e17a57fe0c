// Boards of recorded games in one memory-mapped file: the input of pretraining. docs/reference/formats.md has the layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/sealed_file.hpp"
#include "snake_ddp/game/state.hpp"

namespace snake_ddp::pretrain {

inline constexpr std::string_view kBoardSetEnding = ".boards";

/// Which sets were written together, by the ranks of one recording. `id` is 0 for sets that were not.
struct Recording {
  std::uint64_t id = 0;
  std::int32_t rank = 0, ranks = 0;
  bool operator==(const Recording&) const = default;
};

/// What a set says of itself; an id of 0 for other files and if there is none.
Recording recording_of(const std::string& path);

/// Writes a set game by game. The file gets its name once it is complete.
/// Throws  FileError from each function.
class BoardSetWriter {
 public:
  /// `interval`: steps between two boards of a game; stored for readers.
  BoardSetWriter(std::string path, std::int64_t interval, const Recording& recording = {});
  ~BoardSetWriter();
  BoardSetWriter(const BoardSetWriter&) = delete;
  BoardSetWriter& operator=(const BoardSetWriter&) = delete;

  void add_game(std::span<const game::State> boards);
  /// Completes the set.
  void finish();

 private:
  void put(const void* bytes, std::size_t size);
  std::string path_, part_;
  std::int64_t interval_;
  std::unique_ptr<io::SealedWriter> file_;
  std::vector<std::int64_t> ends_;  // for each game: number of boards up to and including it
  std::string buffer_;
  std::uint32_t crc_ = 0;
};

/// An open set.
/// Owner    the mapping, until the set is gone; boards refer to it.
/// Threads  any number may read at once.
class BoardSet {
 public:
  /// Reads the whole file once, for its checksum, and checks every board and every game's end.
  /// Throws  FileError: missing, truncated, damaged, of another version, with boards that no game can have.
  explicit BoardSet(const std::string& path);
  ~BoardSet();
  BoardSet(const BoardSet&) = delete;
  BoardSet& operator=(const BoardSet&) = delete;

  [[nodiscard]] std::int64_t games() const { return games_; }
  [[nodiscard]] std::int64_t boards() const { return boards_; }
  [[nodiscard]] std::int64_t interval() const { return interval_; }
  [[nodiscard]] std::uint32_t checksum() const { return crc_; }
  [[nodiscard]] const game::State& board(std::int64_t i) const { return first_[i]; }
  /// The boards of game `g`, 0 <= g < games().
  [[nodiscard]] std::span<const game::State> game(std::int64_t g) const;

 private:
  void* map_ = nullptr;
  std::size_t bytes_ = 0;
  const game::State* first_ = nullptr;
  const std::int64_t* ends_ = nullptr;
  std::int64_t games_ = 0, boards_ = 0, interval_ = 0;
  std::uint32_t crc_ = 0;
};

/// Board numbers for training and validation.
struct Split {
  std::vector<std::int64_t> training, held_out;
};

/// Splits by whole games: of every 1 / share consecutive games one is held out.
/// Throws  UsageError if a side would be empty.
Split split_by_games(const BoardSet& set, double held_out_share);

}  // namespace snake_ddp::pretrain
