#include "io/metrics.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "appended_file.hpp"
#include "io/open_file.hpp"

namespace snake_ddp::io {
namespace {

constexpr std::string_view kFirst = "{\"step\":";

// Of a line that MetricsLine made; -1 of any other.
std::int64_t step_of(std::string_view line) {
  std::int64_t step = -1;
  if (line.starts_with(kFirst)) std::from_chars(line.data() + kFirst.size(), line.data() + line.size(), step);
  return step;
}

// Where the lines up to `last_step` end.
off_t end_of_valid(const core::Descriptor& file, const std::string& path, std::int64_t last_step) {
  constexpr std::size_t kHead = 32, kReadBytes = 1 << 16;  // the step is within a line's head
  off_t end = 0;
  std::string head;
  std::vector<char> piece(kReadBytes);
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(file.get(), piece.data(), piece.size(), at);
    if (count < 0) throw file_error("read", path, errno);
    if (count == 0) return end;
    for (ssize_t i = 0; i < count; ++i) {
      const char byte = piece[static_cast<std::size_t>(i)];
      if (byte != '\n') {
        if (head.size() < kHead) head.push_back(byte);
        continue;
      }
      if (step_of(head) > last_step) return end;
      end = at + i + 1;
      head.clear();
    }
    at += count;
  }
}

}  // namespace

MetricsLine::MetricsLine(std::int64_t step, std::int64_t episode, double minutes, double time)
    : text_(fmt::format("{}{},\"episode\":{},\"minutes\":{:.5f},\"time\":{:.3f}", kFirst, step, episode,
                        minutes, time)) {}

void MetricsLine::add(std::string_view name, double value) {
  constexpr double kWhole = 1e15;
  fmt::format_to(std::back_inserter(text_), ",\"{}\":", name);
  if (!std::isfinite(value))
    text_ += "null";
  else if (value == std::trunc(value) && std::abs(value) < kWhole)
    fmt::format_to(std::back_inserter(text_), "{:.0f}", value);
  else if (const auto narrow = static_cast<float>(value); static_cast<double>(narrow) == value)
    fmt::format_to(std::back_inserter(text_), "{}", narrow);
  else
    fmt::format_to(std::back_inserter(text_), "{:.9g}", value);
}

void MetricsLine::add(std::string_view name, const std::string& text) {
  text_ += fmt::format(",\"{}\":{}", name,
                       nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

struct MetricsWriter::File : AppendedFile {};

MetricsWriter::MetricsWriter(const std::string& folder, std::int64_t last_step)
    : file_(std::make_unique<File>()) {
  file_->path = fmt::format("{}/{}", folder, kMetricsFile);
  file_->descriptor = open_to_append(file_->path, /*also_read=*/true);
  file_->written = end_of_valid(file_->descriptor, file_->path, last_step);
  if (::ftruncate(file_->descriptor.get(), file_->written) != 0)
    throw file_error("write", file_->path, errno);
}

MetricsWriter::MetricsWriter(MetricsWriter&&) noexcept = default;
MetricsWriter& MetricsWriter::operator=(MetricsWriter&&) noexcept = default;

MetricsWriter::~MetricsWriter() {
  if (file_) file_->write_pending();
}

void MetricsWriter::add(const MetricsLine& line) { file_->add(line.text()); }

void MetricsWriter::flush() { file_->flush(); }

}  // namespace snake_ddp::io
