// The user's terminal: how far a long command is; for games, keys as they are pressed, and a screen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

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

/// A bar with the time left below the lines of stderr, if that is a terminal; otherwise nothing. It appears after a second,
/// is redrawn by a thread, and goes with the object.
/// Threads  one thread calls it.
class Progress {
 public:
  /// `what` begins the bar, such as "Playing".
  explicit Progress(std::string what, bool shown = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` of the work is done, 0 to 1.
  void show(double share);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double share);

  const std::string what_;
  core::Console console_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  double share_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace snake_ddp::app
