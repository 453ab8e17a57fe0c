// The reader against the writer, against truncated files, and against events of other programs.
#include "snake_ddp/files/event_reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "refusals.hpp"
#include "snake_ddp/files/event_writer.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "temporary_folder.hpp"

namespace snake_ddp::files {
namespace {

using Catch::Matchers::Contains;

struct Seen {
  struct Point {
    std::string tag;
    std::int64_t step;
    float value;
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;
  std::vector<std::int64_t> starts;
  std::vector<double> times;
  bool whole = false;

  EventVisitor visitor() {
    return {[this](double time, std::int64_t step, std::string_view tag, float value) {
              times.push_back(time);
              points.push_back({std::string(tag), step, value});
            },
            [this](double, std::int64_t step) { starts.push_back(step); }};
  }
};

Seen read(const std::string& path) {
  Seen seen;
  seen.whole = read_events(path, seen.visitor());
  return seen;
}

TEST_CASE("what the writer wrote is read", "[unit]") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  CHECK(read(writer.path()).points.empty());
  writer.restart(12);
  writer.scalar("a/b", 0.1, 12);
  writer.scalar("c", -3, std::int64_t{1} << 40);
  writer.flush();
  const Seen seen = read(writer.path());
  CHECK(seen.whole);
  CHECK(seen.starts == std::vector<std::int64_t>{12});
  CHECK((seen.points == std::vector<Seen::Point>{{"a/b", 12, 0.1F}, {"c", std::int64_t{1} << 40, -3.0F}}));
  CHECK(seen.times[0] > 1.6e9);
  CHECK(seen.times[0] <= seen.times[1]);
}

TEST_CASE("of a truncated file all complete records are read", "[property]") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  std::vector<std::size_t> ends = {std::filesystem::file_size(writer.path())};
  for (int i = 0; i < 5; ++i) {
    writer.scalar("tag", i, i);
    writer.flush();
    ends.push_back(std::filesystem::file_size(writer.path()));
  }
  const std::string bytes = records::read_file(writer.path());
  const std::string path = folder / "cut";
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    records::write_file_atomically(path, bytes.substr(0, size));
    const auto whole = std::upper_bound(ends.begin(), ends.end(), size) - ends.begin();
    const Seen seen = read(path);
    CHECK(static_cast<std::ptrdiff_t>(seen.points.size()) == std::max<std::ptrdiff_t>(whole - 1, 0));
    CHECK(seen.whole == (size == 0 || std::find(ends.begin(), ends.end(), size) != ends.end()));
  }
  // Nothing is read after damage, because the start of the next record is unknown.
  for (std::size_t at = ends[2]; at < ends[3]; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    records::write_file_atomically(path, damaged);
    const Seen seen = read(path);
    CHECK(seen.points.size() == 2);
    CHECK(!seen.whole);
  }
}

TEST_CASE("a file that is not one of TensorBoard's is rejected", "[unit]") {
  const TemporaryFolder folder;
  CHECK_THAT(file_error_of([&] { read(folder / "none"); }), Contains("none"));
  records::write_file_atomically(folder / "text", "What is written here is no event.");
  CHECK_THAT(file_error_of([&] { read(folder / "text"); }), Contains("text is not an event file"));
}

TEST_CASE("fields and values of other kinds are skipped", "[unit]") {
  std::string event;
  {
    protozero::pbf_writer writer(event);
    writer.add_double(1, 5.5);
    writer.add_int64(2, 7);
    writer.add_string(6, "a field that we do not know");
    protozero::pbf_writer summary(writer, 5);
    {
      protozero::pbf_writer image(summary, 1);
      image.add_string(1, "an image");
      image.add_string(4, "pixels");
    }
    protozero::pbf_writer scalar(summary, 1);
    scalar.add_string(1, "a scalar");
    scalar.add_float(2, 2.5F);
  }
  Seen seen;
  read_event(event, seen.visitor());
  CHECK((seen.points == std::vector<Seen::Point>{{"a scalar", 7, 2.5F}}));
  CHECK_THAT(file_error_of([&] { read_event(event.substr(0, event.size() - 1), seen.visitor()); }),
             Contains("not an Event"));
}

}  // namespace
}  // namespace snake_ddp::files
