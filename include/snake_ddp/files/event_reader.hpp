// Scalars that a run wrote for TensorBoard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace snake_ddp::files {

/// What an event file holds, in its order. Times are seconds since 1970.
struct EventVisitor {
  std::function<void(double time, std::int64_t step, std::string_view tag, float value)> scalar;
  /// A restart: points of earlier files from `step` on are void.
  std::function<void(double time, std::int64_t step)> start;
};

/// Reads a file as EventWriter writes it, also while it is written. Summaries of other kinds are passed over.
/// Returns  whether the file ends with a whole record; behind a torn or damaged one nothing is read.
/// Throws   FileError if it cannot be read or is no event file.
bool read_events(const std::string& path, const EventVisitor& visitor);

/// One record's contents.
/// Throws  FileError if it is no Event.
void read_event(std::string_view event, const EventVisitor& visitor);

}  // namespace snake_ddp::files
