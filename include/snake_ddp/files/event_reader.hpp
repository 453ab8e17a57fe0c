// Scalars that a run wrote for TensorBoard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace snake_ddp::files {

/// The contents of an event file, in its order. Times are seconds since 1970.
struct EventVisitor {
  std::function<void(double time, std::int64_t step, std::string_view tag, float value)> scalar;
  /// A restart: points of earlier files from `step` on are void.
  std::function<void(double time, std::int64_t step)> start;
};

/// Reads a file as EventWriter writes it, also while it is written. Summaries of other kinds are skipped.
/// Returns  whether the file ends with a whole record; nothing is read after a truncated or damaged one.
/// Throws   FileError if it cannot be read or is not an event file.
bool read_events(const std::string& path, const EventVisitor& visitor);

/// One record's contents.
/// Throws  FileError if it is not an Event.
void read_event(std::string_view event, const EventVisitor& visitor);

}  // namespace snake_ddp::files
