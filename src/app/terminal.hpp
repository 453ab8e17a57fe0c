// The player's terminal: keys as they are pressed, and a screen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::app {

enum class Key { kUp, kDown, kLeft, kRight, kPause, kQuit };  // the first four are the game's moves

/// Takes over the terminal at standard input and output, and restores it in the destructor and at a second signal.
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT request the end. Only one may exist.
class Terminal {
 public:
  /// Throws  UsageError if standard input or output is not a terminal.
  explicit Terminal(const core::Abilities& abilities);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The next key. A signal and a closed terminal are kQuit.
  /// Waits  until `deadline`.
  std::optional<Key> key(core::Deadline deadline);

  /// Replaces the previous frame; without escape codes prints below it. A terminal that is too small for the frame shows how
  /// large it must be instead.
  /// Returns  whether the frame fits.
  /// Waits  for a terminal that does not read, one second at most; then the rest of the frame is dropped.
  bool show(std::string_view frame);
  /// Whether its size has changed since the last frame.
  [[nodiscard]] bool resized() const;

 private:
  void write(std::string_view text);

  struct Size {
    int columns, rows;
    bool operator==(const Size&) const = default;
  };
  [[nodiscard]] static Size size();

  core::Abilities abilities_;
  std::string sent_;
  Size shown_on_{};
};

}  // namespace snake_ddp::app
