// The latest time until which a call may wait. There is no infinite deadline.
#pragma once

#include <algorithm>
#include <chrono>

namespace snake_ddp::core {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `span` from now. A span of zero or less has already passed.
  static Deadline in(std::chrono::milliseconds span) { return Deadline(Clock::now() + span); }

  [[nodiscard]] bool passed() const { return Clock::now() >= at_; }

  /// Time left, at least zero.
  [[nodiscard]] std::chrono::milliseconds left() const {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(at_ - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace snake_ddp::core
