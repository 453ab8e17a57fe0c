#include "io/event_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <protozero/pbf_writer.hpp>
#include <protozero/types.hpp>
#include <string_view>

#include "appended_file.hpp"
#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

enum EventField : protozero::pbf_tag_type {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
enum SummaryField : protozero::pbf_tag_type { kValue = 1 };
enum SessionField : protozero::pbf_tag_type { kStatus = 1 };
enum ValueField : protozero::pbf_tag_type { kTag = 1, kSimpleValue = 2 };
constexpr std::int32_t kStart = 1;  // a session's status
constexpr const char* kEventVersion = "brain.Event:2";

// CRC-32C (RFC 3720, B.4): the polynomial 0x1EDC6F41, lowest bit first. Rotated and shifted, because the CRC of data that
// contains CRCs is a poor checksum.
std::uint32_t masked_crc(std::string_view bytes) {
  static constexpr auto kOfByte = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
      table[byte] = byte;
      for (int bit = 0; bit < 8; ++bit)
        table[byte] = table[byte] >> 1U ^ ((table[byte] & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    return table;
  }();
  std::uint32_t value = 0xFFFFFFFFU;
  for (const char byte : bytes)
    value = value >> 8U ^ kOfByte[(value ^ static_cast<unsigned char>(byte)) & 0xFFU];
  value = ~value;
  return ((value >> 15U) | (value << 17U)) + 0xa282ead8U;
}

constexpr std::string_view kFilePrefix = "events.out.tfevents.";
constexpr std::int64_t kLatest = 10'000'000'000;  // seconds since 1970, in names as long as today's

template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_record(std::string& out, const std::string& event) {
  std::string length;
  append_number(length, std::uint64_t{event.size()});
  out += length;
  append_number(out, masked_crc(length));
  out += event;
  append_number(out, masked_crc(event));
}

std::string version_event(double time) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, time);
  writer.add_string(kFileVersion, kEventVersion);
  return event;
}

std::string start_event(double time, std::int64_t step) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, time);
  writer.add_int64(kStep, step);
  protozero::pbf_writer session(writer, kSessionLog);
  session.add_enum(kStatus, kStart);
  return event;
}

std::string scalar_event(double time, std::string_view tag, float value, std::int64_t step) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, time);
  writer.add_int64(kStep, step);
  protozero::pbf_writer summary(writer, kSummary);
  protozero::pbf_writer item(summary, kValue);
  item.add_string(kTag, tag.data(), tag.size());
  item.add_float(kSimpleValue, value);
  return event;
}

// The second at which a folder's newest event file was begun, by its name; 0 without one.
std::int64_t newest_begin(const std::string& folder) {
  std::int64_t newest = 0;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(kFilePrefix)) continue;
    const std::string_view rest = std::string_view(name).substr(kFilePrefix.size());
    const auto begun = core::try_number<std::int64_t>(rest.substr(0, rest.find('.')));
    if (begun && *begun < kLatest) newest = std::max(newest, *begun);
  }
  return newest;
}

}  // namespace

struct EventWriter::File : AppendedFile {
  double later = 0;  // seconds; above 0 if the system's clock was set back before this start

  [[nodiscard]] double time() const { return core::seconds_since_1970() + later; }

  void add_event(const std::string& event) {
    std::string record;
    append_record(record, event);
    add(record);
  }
};

EventWriter::EventWriter(const std::string& folder) : file_(std::make_unique<File>()) {
  make_folders(folder);
  // Readers take files in the order of their names, which must be that in which they were begun.
  const double now = core::seconds_since_1970(),
               begun = std::max(now, static_cast<double>(newest_begin(folder) + 1));
  file_->later = begun - now;
  const std::string start = fmt::format("{}{}.{}.{}.", (std::filesystem::path(folder) / kFilePrefix).string(),
                                        static_cast<std::int64_t>(begun), core::host_name(), ::getpid());
  for (int n = 0; !file_->descriptor.open(); ++n) {
    file_->path = start + std::to_string(n);
    file_->descriptor =
        core::Descriptor(::open(file_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_->descriptor.open() && errno != EEXIST) throw file_error("create", file_->path, errno);
  }
  file_->add_event(version_event(file_->time()));
  file_->write_pending();  // if the disk is full, the next flush() reports it
}

EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;

EventWriter::~EventWriter() {
  if (file_) file_->write_pending();
}

void EventWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  file_->add_event(scalar_event(file_->time(), tag, static_cast<float>(value), step));
}

void EventWriter::restart(std::int64_t step) { file_->add_event(start_event(file_->time(), step)); }

void EventWriter::flush() { file_->flush(); }

const std::string& EventWriter::path() const { return file_->path; }

}  // namespace snake_ddp::io
