// Scalars for TensorBoard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace snake_ddp::files {

/// Appends scalars to a new events.out.tfevents.<time>.<host>.<pid>.<n> in a folder.
/// Threads  one at a time.
/// Throws   FileError from the constructor, where no file can be made, and from flush(). The records of a failed write are taken off the file again and
///          kept, up to 16 MiB, so that a later flush() may succeed.
/// Follows  TensorFlow's event.proto and record_writer.cc: length, masked CRC-32C, Event, masked CRC-32C.
class EventWriter {
 public:
  /// Creates the folder where it is missing, and the file with its version record.
  explicit EventWriter(const std::string& folder);
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  /// Writes what is left; cannot tell whether that worked: call flush() first.
  ~EventWriter();

  /// One point of the curve `tag`, kept as float32 as TensorBoard does. Buffered; written from 64 KiB on; flush() tells
  /// of a failure.
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Tells TensorBoard to forget the points that earlier files of the folder have from `step` on.
  void restart(std::int64_t step);
  /// Hands everything to the system.
  void flush();

  [[nodiscard]] const std::string& path() const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace snake_ddp::files
