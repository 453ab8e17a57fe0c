#include "snake_ddp/files/event_reader.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <utility>

#include "event_format.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/records/file_error.hpp"
#include "snake_ddp/records/open_file.hpp"

namespace snake_ddp::files {
namespace {

constexpr std::size_t kHeadBytes = 12, kTailBytes = 4;
constexpr std::size_t kPieceBytes = 1U << 20U;  // read at a time: a long run's file may have gigabytes
constexpr std::uint64_t kMostRecordBytes = 64U << 20U;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The records of a file, one after the other.
class Records {
 public:
  explicit Records(const std::string& path) : path_(path), file_(records::open_to_read(path)) {}

  // False if there is no complete one. `event` is valid until the next call.
  bool next(std::string_view& event) {
    used_ += std::exchange(taken_, 0);
    if (!has(kHeadBytes + kTailBytes) || !has_head()) return false;
    const auto length = number_at<std::uint64_t>(rest(), 0);
    if (length > kMostRecordBytes || !has(kHeadBytes + length + kTailBytes)) return false;
    event = rest().substr(kHeadBytes, length);
    if (number_at<std::uint32_t>(rest(), kHeadBytes + length) != masked_crc(event)) return false;
    taken_ = kHeadBytes + length + kTailBytes;
    return true;
  }
  // What is left after the last one.
  [[nodiscard]] std::string_view rest() const { return std::string_view(bytes_).substr(used_); }
  [[nodiscard]] bool has_head() const {
    return number_at<std::uint32_t>(rest(), 8) == masked_crc(rest().substr(0, 8));
  }

 private:
  // Reads on until so many bytes are left, or to the end.
  bool has(std::size_t count) {
    while (rest().size() < count) {
      bytes_.erase(0, std::exchange(used_, 0));
      const std::size_t before = bytes_.size();
      bytes_.resize(before + kPieceBytes);
      const ssize_t n = ::read(file_.get(), bytes_.data() + before, kPieceBytes);
      bytes_.resize(before + (n > 0 ? static_cast<std::size_t>(n) : 0));
      if (n == 0) return false;
      if (n < 0 && errno != EINTR) throw records::file_error("read", path_, errno);
    }
    return true;
  }

  const std::string& path_;
  base::Descriptor file_;
  std::string bytes_;
  std::size_t used_ = 0, taken_ = 0;
};

struct Event {
  double time = 0;
  std::int64_t step = 0;
  std::string_view version, summary, session;
};

std::string_view view_of(protozero::data_view data) { return {data.data(), data.size()}; }

template <class Visit>
void each_field(std::string_view message, const Visit& visit) {
  for (protozero::pbf_reader in(message.data(), message.size()); in.next();) {
    if (!visit(in)) in.skip();
  }
}

// A field of another type than expected is skipped, as an unknown one is.
bool is_field(const protozero::pbf_reader& in, protozero::pbf_tag_type tag, protozero::pbf_wire_type type) {
  return in.tag() == tag && in.wire_type() == type;
}

Event parse_event(std::string_view bytes) {
  using Wire = protozero::pbf_wire_type;
  Event event;
  each_field(bytes, [&](protozero::pbf_reader& in) {
    if (is_field(in, kWallTime, Wire::fixed64))
      event.time = in.get_double();
    else if (is_field(in, kStep, Wire::varint))
      event.step = in.get_int64();
    else if (is_field(in, kFileVersion, Wire::length_delimited))
      event.version = view_of(in.get_view());
    else if (is_field(in, kSummary, Wire::length_delimited))
      event.summary = view_of(in.get_view());
    else if (is_field(in, kSessionLog, Wire::length_delimited))
      event.session = view_of(in.get_view());
    else
      return false;
    return true;
  });
  return event;
}

void visit_scalar(const Event& event, std::string_view bytes, const EventVisitor& visitor) {
  std::string_view tag;
  float number = 0;
  bool has_number = false;
  each_field(bytes, [&](protozero::pbf_reader& in) {
    if (is_field(in, kTag, protozero::pbf_wire_type::length_delimited)) {
      tag = view_of(in.get_view());
    } else if (is_field(in, kSimpleValue, protozero::pbf_wire_type::fixed32)) {
      number = in.get_float();
      has_number = true;
    } else {
      return false;
    }
    return true;
  });
  if (has_number) visitor.scalar(event.time, event.step, tag, number);
}

void visit_event(const Event& event, const EventVisitor& visitor) {
  each_field(event.summary, [&](protozero::pbf_reader& in) {
    if (!is_field(in, kValue, protozero::pbf_wire_type::length_delimited)) return false;
    visit_scalar(event, view_of(in.get_view()), visitor);
    return true;
  });
  each_field(event.session, [&](protozero::pbf_reader& in) {
    if (!is_field(in, kStatus, protozero::pbf_wire_type::varint)) return false;
    if (in.get_enum() == kStart) visitor.start(event.time, event.step);
    return true;
  });
}

}  // namespace

void read_event(std::string_view event, const EventVisitor& visitor) {
  try {
    visit_event(parse_event(event), visitor);
  } catch (const protozero::exception& e) {
    throw base::FileError(std::string("not an Event: ") + e.what());
  }
}

bool read_events(const std::string& path, const EventVisitor& visitor) {
  Records all(path);
  std::string_view event;
  bool first = true;
  try {
    for (; all.next(event); first = false) {
      const Event parsed = parse_event(event);
      if (first && parsed.version != kEventVersion)
        throw base::FileError(path + " is not an event file: its first record has no version " +
                              kEventVersion);
      visit_event(parsed, visitor);
    }
  } catch (const protozero::exception& e) {
    throw base::FileError(path + ": not an Event: " + e.what());
  }
  if (first && all.rest().size() >= kHeadBytes && !all.has_head())
    throw base::FileError(path + " is not an event file: it does not begin with a record");
  return all.rest().empty();
}

}  // namespace snake_ddp::files
