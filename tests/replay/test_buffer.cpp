#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <deque>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/replay/buffer.hpp"

namespace {

using namespace snake_ddp;

// Transition n of a made-up game: every float tells which one it is.
void append_numbered(replay::Buffer& buffer, int n) {
  const std::array<float, 6> a = {static_cast<float>(n), 1, 2, 3, 4, 5};
  const std::array<float, 1> b = {static_cast<float>(-n)};
  const std::array<const float*, 2> values = {a.data(), b.data()};
  buffer.append(values);
}

replay::Buffer small_buffer(std::int64_t capacity) { return {{{"a", {3, 2}}, {"b", {1}}}, capacity}; }

}  // namespace

TEST_CASE("a full buffer forgets the oldest transition first", "[property]") {
  replay::Buffer buffer = small_buffer(7);
  std::deque<int> expected;
  for (int n = 0; n < 50; ++n) {
    append_numbered(buffer, n);
    expected.push_back(n);
    if (expected.size() > 7) expected.pop_front();
    REQUIRE(buffer.size() == static_cast<std::int64_t>(expected.size()));
    std::vector<int> held;
    for (std::int64_t row = 0; row < buffer.size(); ++row) {
      const float a = buffer.column(0)[row][0][0].item<float>();
      REQUIRE(buffer.column(1)[row][0].item<float>() == -a);  // columns stay together
      held.push_back(static_cast<int>(a));
    }
    std::sort(held.begin(), held.end());
    REQUIRE(held == std::vector<int>(expected.begin(), expected.end()));
  }
  CHECK(buffer.appended() == 50);
}

TEST_CASE("sampling is a function of seed and draw, and reaches every transition evenly", "[property]") {
  replay::Buffer buffer = small_buffer(10);
  for (int n = 0; n < 10; ++n) append_numbered(buffer, n);
  replay::Batch batch, again, other_seed, other_draw;
  buffer.sample(64, 3, 5, batch);
  buffer.sample(64, 3, 5, again);
  buffer.sample(64, 4, 5, other_seed);
  buffer.sample(64, 3, 6, other_draw);
  CHECK(batch.columns[0].sizes().vec() == std::vector<std::int64_t>{64, 3, 2});
  CHECK(at::equal(batch.columns[0], again.columns[0]));
  CHECK_FALSE(at::equal(batch.columns[0], other_seed.columns[0]));
  CHECK_FALSE(at::equal(batch.columns[0], other_draw.columns[0]));

  std::array<int, 10> count{};
  for (std::uint64_t draw = 0; draw < 100; ++draw) {
    buffer.sample(100, 1, draw, batch);
    for (int i = 0; i < 100; ++i) ++count[static_cast<std::size_t>(batch.columns[0][i][0][0].item<float>())];
  }
  // 10,000 draws over ten rows: the standard deviation of a count is 30.
  for (const int n : count) CHECK(std::abs(n - 1000) < 150);
}

TEST_CASE("a partly filled buffer never gives rows that were not written", "[unit]") {
  replay::Buffer buffer = small_buffer(1000);
  append_numbered(buffer, 1);
  append_numbered(buffer, 2);
  replay::Batch batch;
  buffer.sample(200, 1, 1, batch);
  CHECK(batch.columns[1].max().item<float>() == -1.0F);
  CHECK(batch.columns[1].min().item<float>() == -2.0F);
}

TEST_CASE("an empty buffer, a wrong number of columns and too much memory are errors", "[unit]") {
  replay::Buffer buffer = small_buffer(4);
  replay::Batch batch;
  CHECK_THROWS_AS(buffer.sample(1, 1, 1, batch), base::Bug);
  const std::array<const float*, 1> one = {nullptr};
  CHECK_THROWS_AS(buffer.append(one), base::Bug);
  CHECK(buffer.payload_bytes() == 4 * 7 * 4);
#if !defined(__SANITIZE_ADDRESS__)
  CHECK_THROWS_WITH(small_buffer(std::int64_t{1} << 50), Catch::Contains("lower --buffer_size"));
#endif
}
