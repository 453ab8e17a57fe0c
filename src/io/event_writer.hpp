// Scalars for TensorBoard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace snake_ddp::io {

/// Appends scalars to a new events.out.tfevents.<time>.<host>.<pid>.<n> in a folder.
/// Threads  only one at a time.
/// Throws   FileError from the constructor, if no file can be created, and from flush(). The records of a failed write are
///          removed from the file and kept, up to 16 MiB, so that a later flush() may succeed.
/// Follows  TensorFlow's event.proto and record_writer.cc: length, masked CRC-32C, Event, masked CRC-32C.
class EventWriter {
 public:
  /// Creates the folder if missing, and the file with its version record.
  explicit EventWriter(const std::string& folder);
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  /// Writes what is left; it cannot report failure: call flush() first.
  ~EventWriter();

  /// One point of the curve `tag`, stored as float32 as in TensorBoard. Buffered; written from 64 KiB on; flush() reports
  /// failures.
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Makes TensorBoard forget the points of the folder's earlier files from `step` on.
  void restart(std::int64_t step);
  /// Passes everything to the system.
  void flush();

  [[nodiscard]] const std::string& path() const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace snake_ddp::io
