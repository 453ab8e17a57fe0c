// The standard descriptors: lines for a person, errors, and what a command was asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "snake_ddp/base/deadline.hpp"

namespace snake_ddp::base {

/// Opens those of descriptors 0, 1 and 2 that are closed on /dev/null: otherwise the first file that is opened gets the number
/// and everything that is printed. From then on writing to a pipe without a reader is an error, not the process's death.
void hold_standard_descriptors();

/// Lines for a person who watches. A thread writes them, so that a reader that stopped reading (Ctrl-S, a pager) makes nobody
/// wait: lines beyond those that may wait are dropped, and their number is said when the reader goes on. Nor is a
/// descriptor that cannot be written an error.
/// Threads  may be called from several at once.
class Console {
 public:
  /// `elsewhere` ends the sentence that tells how many lines were dropped, for example "; all are in train.log".
  explicit Console(int descriptor, std::string elsewhere = "");
  /// Waits  for the reader, five seconds at most.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  [[nodiscard]] bool terminal() const;

  void line(std::string_view text);

  /// Of the terminal now: people resize it. 80 where there is none.
  [[nodiscard]] int columns() const;

  /// A line below all others, in place of the last bar. Only on a terminal, from the first line on, and once all lines are
  /// written. A dumb terminal (TERM) gets no escape codes.
  void bar(std::string_view text);
  /// Takes the bar off the terminal.
  void clear_bar();

  /// Waits    until everything is written, or could not be, or `deadline`.
  /// Returns  false at the deadline.
  bool drain(Deadline deadline);

  /// Lines that did not reach the descriptor so far.
  [[nodiscard]] std::int64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may be stuck in the descriptor for ever
};

/// A line on stderr, by a console of the whole process.
/// Waits  for the reader, two seconds at most, and no more once one did not come back in that time.
void tell_error(std::string_view line) noexcept;

/// Text on stdout that a command was asked for. Waits for the reader, as filters do; one that has gone is no error.
/// Throws  FileError: no room, say.
void print_result(std::string_view text);

}  // namespace snake_ddp::base
