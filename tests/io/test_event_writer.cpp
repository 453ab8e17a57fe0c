// Event files, parsed here by an independent reader; test_files_python.py lets TensorBoard read them.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/event_writer.hpp"
#include "refusals.hpp"
#include "temporary_folder.hpp"

namespace snake_ddp::io {
namespace {

using Catch::Matchers::Contains;

struct Point {
  std::string tag;
  float value = 0;
  std::int64_t step = -1;
  std::string version;
};

// Bit by bit from the definition: reflected polynomial 0x82f63b78.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15U | crc << 17U) + 0xa282ead8U;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Point decode(std::string_view event) {
  Point point;
  for (protozero::pbf_reader in(event.data(), event.size()); in.next();) {
    if (in.tag() == 2) {
      point.step = in.get_int64();
    } else if (in.tag() == 3) {
      point.version = in.get_string();
    } else if (in.tag() == 5) {
      protozero::pbf_reader summary = in.get_message();
      REQUIRE(summary.next(1));
      for (protozero::pbf_reader value = summary.get_message(); value.next();) {
        if (value.tag() == 1) {
          point.tag = value.get_string();
        } else {
          REQUIRE(value.tag() == 2);
          point.value = value.get_float();
        }
      }
    } else {
      REQUIRE(in.tag() == 1);
      CHECK(in.get_double() > 1.6e9);
    }
  }
  return point;
}

std::vector<Point> read_events(const std::string& path) {
  const std::string bytes = io::read_file(path);
  std::vector<Point> points;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = number_at<std::uint64_t>(bytes, at);
    REQUIRE(number_at<std::uint32_t>(bytes, at + 8) == masked(bytes.substr(at, 8)));
    REQUIRE(length <= bytes.size());
    const std::string event = bytes.substr(at + 12, length);
    REQUIRE(number_at<std::uint32_t>(bytes, at + 12 + length) == masked(event));
    points.push_back(decode(event));
    at += 12 + length + 4;
  }
  return points;
}

TEST_CASE("an event file starts with its version and holds each point", "[unit]") {
  REQUIRE(crc32c("123456789") == 0xe3069283);
  const TemporaryFolder folder;
  EventWriter writer(folder / "a/b");
  CHECK_THAT(writer.path(), Contains("a/b/events.out.tfevents.") && Catch::Matchers::EndsWith(".0"));
  CHECK(read_events(writer.path()).size() == 1);
  writer.scalar("reward/total", 2.5, 0);
  writer.scalar("loss/actor", -1e30, std::numeric_limits<std::int64_t>::max());
  writer.scalar("loss/critic", std::nan(""), 7);
  CHECK(read_events(writer.path()).size() == 1);
  writer.flush();
  const auto points = read_events(writer.path());
  REQUIRE(points.size() == 4);
  CHECK(points[0].version == "brain.Event:2");
  CHECK(points[1].tag == "reward/total");
  CHECK(points[1].value == 2.5F);
  CHECK(points[1].step == 0);
  CHECK(points[2].value == -1e30F);
  CHECK(points[2].step == std::numeric_limits<std::int64_t>::max());
  CHECK(std::isnan(points[3].value));
}

TEST_CASE("many points are written without a flush, the rest when the writer ends", "[unit]") {
  const TemporaryFolder folder;
  std::string path;
  {
    EventWriter writer(folder.path());
    path = writer.path();
    for (int i = 0; i < 5000; ++i) writer.scalar("perf/env_steps_per_second", i, i);
    CHECK(std::filesystem::file_size(path) > 100'000);
    const EventWriter moved(std::move(writer));
  }
  const auto points = read_events(path);
  REQUIRE(points.size() == 5001);
  CHECK(points.back().value == 4999);
}

TEST_CASE("two writers in one folder have files of their own", "[unit]") {
  const TemporaryFolder folder;
  const EventWriter one(folder.path());
  const EventWriter two(folder.path());
  CHECK(one.path() != two.path());
  CHECK(folder.entries() == 2);
}

TEST_CASE("after a full disk the event file ends with a whole record and loses nothing once there is room",
          "[unit]") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("kept", 1, 1);
  writer.flush();
  {
    const FileSizeLimit limit(1000);
    for (int i = 0; i < 100; ++i) writer.scalar("late", i, i);
    CHECK_THAT(file_error_of([&] { writer.flush(); }), Contains(writer.path()) && Contains("File too large"));
    CHECK(read_events(writer.path()).size() == 2);
    CHECK_THAT(file_error_of([&] { writer.flush(); }), Contains("File too large"));
  }
  writer.flush();
  const auto points = read_events(writer.path());
  REQUIRE(points.size() == 102);
  CHECK(points.back().value == 99);
}

TEST_CASE("an event file that begins on a full disk is whole once there is room", "[unit]") {
  const TemporaryFolder folder;
  std::optional<EventWriter> writer;
  {
    const FileSizeLimit limit(0);
    writer.emplace(folder.path());
    writer->scalar("kept", 1, 1);
    CHECK_THAT(file_error_of([&] { writer->flush(); }), Contains("File too large"));
  }
  writer->flush();
  CHECK(read_events(writer->path()).size() == 2);
}

TEST_CASE("an event file in an impossible place is rejected", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "x", "");
  CHECK_THAT(file_error_of([&] { EventWriter(folder / "x"); }), Contains("cannot"));
  CHECK_THAT(file_error_of([&] { EventWriter(folder / "x/y"); }), Contains("Not a directory"));
}

TEST_CASE("files are read in the order in which they were begun, also after the clock was set back",
          "[unit]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "events.out.tfevents.4000000000.host.1.0") << "begun in another year";
  std::ofstream(folder / "events.out.tfevents.99999999999999999999.x") << "no time";
  const EventWriter first(folder.path()), second(folder.path());
  const auto name = [](const EventWriter& writer) {
    return std::filesystem::path(writer.path()).filename().string();
  };
  CHECK(name(first).starts_with("events.out.tfevents.4000000001."));
  CHECK(name(second).starts_with("events.out.tfevents.4000000002."));
}

}  // namespace
}  // namespace snake_ddp::io
