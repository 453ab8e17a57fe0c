// The standard descriptors: console lines, errors, and the output of commands.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::core {

/// Opens descriptors 0, 1 and 2 on /dev/null, for reading, if they are closed: without this, the next file opened would
/// get one of these numbers and receive everything that is printed. Afterwards, writing to one of these or to a pipe
/// without a reader is an error and does not kill the process.
void hold_standard_descriptors();

/// What a terminal can show, from this process's environment: NO_COLOR, TERM, and the locale's variables.
struct Abilities {
  bool escapes = true, colour = true, utf8 = true;
};
Abilities abilities();

/// Connections for a person at the terminal. A thread writes them, so a reader that has stopped reading (Ctrl-S, a pager)
/// blocks no caller: lines beyond the queue's capacity are dropped, and their number is reported when the reader
/// continues. A descriptor that cannot be written is not an error either. Text is printed as printable_line() has it.
/// Threads  may be called from several at once.
class Console {
 public:
  /// `elsewhere` ends the sentence that reports the number of dropped lines, for example "; all are in train.log".
  explicit Console(int descriptor, std::string elsewhere = "");
  /// Waits  for the reader, five seconds at most.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  [[nodiscard]] bool terminal() const;

  void line(std::string_view text);

  struct Size {
    int columns = 80, rows = 24;
  };
  /// The terminal's size at this moment; it may be resized. 80 x 24 without a terminal.
  [[nodiscard]] Size size() const;

  /// A status below all lines, replacing the last one. Only on a terminal, from the first line on, and once all lines are
  /// written. It may have several lines, each narrower than the terminal, except on a terminal without escape codes (TERM).
  void bar(std::string_view text);
  /// Removes the bar from the terminal.
  void clear_bar();

  /// Waits    until everything is written or has failed, or until `deadline`.
  /// Returns  false at the deadline.
  bool drain(Deadline deadline);

  /// Connections that have not reached the descriptor so far.
  [[nodiscard]] std::int64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may be blocked on the descriptor forever
};

/// Prints a line on stderr, through one console for the whole process, and in the log of also_tell.
/// Waits  for the reader, two seconds at most, and not at all once a reader has missed that limit.
void tell_error(std::string_view line) noexcept;

/// Passes what tell_error prints from now on to `log`, too, which may be called by any thread and may throw.
void also_tell(std::function<void(std::string_view)> log);

/// Prints a command's output on stdout, as printable() has it. Waits for the reader, as filters do; a reader that has gone is
/// not an error.
/// Throws  FileError, for example if the disk is full.
void print_result(std::string_view text);

}  // namespace snake_ddp::core
