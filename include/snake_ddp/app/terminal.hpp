// The terminal of a person who plays: keys as they are pressed, and a screen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/deadline.hpp"

namespace snake_ddp::app {

enum class Key { kUp, kDown, kLeft, kRight, kPause, kQuit };  // the first four are the game's moves

/// The first whole key of what a terminal sent, which is taken off: arrows, WASD, hjkl, space, q. What is no key is dropped; the
/// beginning of an arrow stays.
std::optional<Key> take_key(std::string& sent);

/// Takes the terminal at standard input and output, and gives it back as it was: in the destructor, and at a second signal.
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT ask for the end. There may be one.
class Terminal {
 public:
  /// Throws  UsageError where standard input or output is no terminal.
  explicit Terminal(const base::Abilities& abilities);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The next key. A signal, and a terminal that has gone, are kQuit.
  /// Waits  until `deadline`.
  std::optional<Key> key(base::Deadline deadline);

  /// Puts the frame in the place of the last one; without escapes below it.
  /// Waits  for a terminal that does not read, a second at most; then the rest of the frame is dropped.
  void show(std::string_view frame);

 private:
  void write(std::string_view text);

  base::Abilities abilities_;
  std::string sent_;
};

}  // namespace snake_ddp::app
