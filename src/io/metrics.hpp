// A run's metrics.jsonl: each report is a line with a JSON object, for any program that reads JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace snake_ddp::io {

/// One report: `step` (of the boards of all ranks), `episode`, `minutes` of training, `time` (seconds since 1970), and what is added.
class MetricsLine {
 public:
  MetricsLine(std::int64_t step, std::int64_t episode, double minutes, double time);
  /// `null` if it is not finite.
  void add(std::string_view name, double value);
  void add(std::string_view name, const std::string& text);
  [[nodiscard]] std::string text() const { return text_ + "}\n"; }

 private:
  std::string text_;
};

/// Appends lines.
/// Threads  only one at a time.
/// Throws   FileError from the constructor, if the file cannot be opened, and from flush(). After a failed write the file ends with
///          a whole line; lines are kept, up to 16 MiB, so that a later flush() may succeed.
class MetricsWriter {
 public:
  /// Continues the folder's file after `last_step`: lines of later steps, which a restart made void, are cut off, and so is an
  /// incomplete line at the end.
  MetricsWriter(const std::string& folder, std::int64_t last_step);
  MetricsWriter(MetricsWriter&&) noexcept;
  MetricsWriter& operator=(MetricsWriter&&) noexcept;
  /// Writes what is left; it cannot report failure: call flush() first.
  ~MetricsWriter();

  /// Buffered; written from 64 KiB on; flush() reports failures.
  void add(const MetricsLine& line);
  /// Passes everything to the system.
  void flush();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// The file's name.
inline constexpr const char* kMetricsFile = "metrics.jsonl";

}  // namespace snake_ddp::io
