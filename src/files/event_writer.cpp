#include "snake_ddp/files/event_writer.hpp"

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <protozero/pbf_writer.hpp>

#include "event_format.hpp"
#include "snake_ddp/base/descriptor.hpp"
#include "snake_ddp/base/host.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/file_error.hpp"

namespace snake_ddp::files {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::size_t kMostBytes = 16 << 20;  // while the disk is full

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

std::string version_event() {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, seconds_since_1970());
  writer.add_string(kFileVersion, kEventVersion);
  return event;
}

std::string start_event(std::int64_t step) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, seconds_since_1970());
  writer.add_int64(kStep, step);
  protozero::pbf_writer session(writer, kSessionLog);
  session.add_enum(kStatus, kStart);
  return event;
}

std::string scalar_event(std::string_view tag, float value, std::int64_t step) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, seconds_since_1970());
  writer.add_int64(kStep, step);
  protozero::pbf_writer summary(writer, kSummary);
  protozero::pbf_writer item(summary, kValue);
  item.add_string(kTag, tag.data(), tag.size());
  item.add_float(kSimpleValue, value);
  return event;
}

}  // namespace

struct EventWriter::File {
  std::string path;
  base::Descriptor descriptor{-1};
  std::string pending;
  off_t written = 0;  // end of the last whole record
  bool failing = false;

  // Returns 0 or an errno value; after an error the file ends with a whole record and `pending` is as it was.
  int write_pending() {
    const int error = base::write_all(descriptor.get(), pending);
    failing = error != 0;
    if (failing) {
      if (::ftruncate(descriptor.get(), written) == 0) ::lseek(descriptor.get(), written, SEEK_SET);
      return error;
    }
    written += static_cast<off_t>(pending.size());
    pending.clear();
    return 0;
  }
};

EventWriter::EventWriter(const std::string& folder) : file_(std::make_unique<File>()) {
  records::make_folders(folder);
  const std::string start = (std::filesystem::path(folder) / "events.out.tfevents.").string() +
                            std::to_string(static_cast<std::int64_t>(seconds_since_1970())) + "." +
                            base::host_name() + "." + std::to_string(::getpid()) + ".";
  // One process may make two writers within a second.
  for (int n = 0; !file_->descriptor.open(); ++n) {
    file_->path = start + std::to_string(n);
    file_->descriptor =
        base::Descriptor(::open(file_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_->descriptor.open() && errno != EEXIST) throw records::file_error("create", file_->path, errno);
  }
  append_record(file_->pending, version_event());
  file_->write_pending();  // if the disk is full, the next flush() reports it
}

EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;

EventWriter::~EventWriter() {
  if (file_) file_->write_pending();
}

void EventWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  if (file_->pending.size() >= kMostBytes) return;
  append_record(file_->pending, scalar_event(tag, static_cast<float>(value), step));
  if (file_->pending.size() >= kBufferBytes && !file_->failing) file_->write_pending();
}

void EventWriter::restart(std::int64_t step) { append_record(file_->pending, start_event(step)); }

void EventWriter::flush() {
  const int error = file_->write_pending();
  if (error != 0) throw records::file_error("write", file_->path, error);
}

const std::string& EventWriter::path() const { return file_->path; }

}  // namespace snake_ddp::files
