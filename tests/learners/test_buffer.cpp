#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <set>
#include <thread>

#include "learners/buffer.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;

// Transition n of a made-up game: every float identifies it.
void append_numbered(learners::Buffer& buffer, int n) {
  const std::array<float, 6> a = {static_cast<float>(n), 1, 2, 3, 4, 5};
  const std::array<float, 1> b = {static_cast<float>(-n)};
  const std::array<const float*, 2> values = {a.data(), b.data()};
  buffer.append(values);
}

// Draw number `draw` of a buffer.
void draw_from(learners::Buffer& buffer, std::int64_t count, std::uint64_t seed, std::int64_t draw,
               learners::Batch& out) {
  buffer.set_draws(draw);
  buffer.sample(count, seed, out);
}

learners::Buffer small_buffer(std::int64_t capacity) { return {{{"a", {3, 2}}, {"b", {1}}}, capacity}; }

}  // namespace

TEST_CASE("a full buffer forgets the oldest transition first", "[property]") {
  learners::Buffer buffer = small_buffer(7);
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
  learners::Buffer buffer = small_buffer(10);
  for (int n = 0; n < 10; ++n) append_numbered(buffer, n);
  learners::Batch batch, again, other_seed, other_draw;
  draw_from(buffer, 64, 3, 5, batch);
  draw_from(buffer, 64, 3, 5, again);
  draw_from(buffer, 64, 4, 5, other_seed);
  draw_from(buffer, 64, 3, 6, other_draw);
  CHECK(batch.columns[0].sizes().vec() == std::vector<std::int64_t>{64, 3, 2});
  CHECK(at::equal(batch.columns[0], again.columns[0]));
  CHECK_FALSE(at::equal(batch.columns[0], other_seed.columns[0]));
  CHECK_FALSE(at::equal(batch.columns[0], other_draw.columns[0]));

  std::array<int, 10> count{};
  for (std::int64_t draw = 0; draw < 100; ++draw) {
    draw_from(buffer, 100, 1, draw, batch);
    for (int i = 0; i < 100; ++i) ++count[static_cast<std::size_t>(batch.columns[0][i][0][0].item<float>())];
  }
  // 10,000 draws over ten rows: the standard deviation of a count is 30.
  for (const int n : count) CHECK(std::abs(n - 1000) < 150);
}

TEST_CASE("a partly filled buffer never returns rows that were not written", "[unit]") {
  learners::Buffer buffer = small_buffer(1000);
  append_numbered(buffer, 1);
  append_numbered(buffer, 2);
  learners::Batch batch;
  draw_from(buffer, 200, 1, 1, batch);
  CHECK(batch.columns[1].max().item<float>() == -1.0F);
  CHECK(batch.columns[1].min().item<float>() == -2.0F);
}

TEST_CASE("a snapshot holds the rows of its moment, oldest first, whatever is appended while it is read",
          "[property]") {
  for (const int before : {0, 3, 7, 11}) {
    for (const int at_a_time : {1, 2, 7}) {
      for (const int meanwhile : {0, 1, 3, 20}) {
        CAPTURE(before, at_a_time, meanwhile);
        learners::Buffer buffer = small_buffer(7);
        int n = 0;
        while (n < before) append_numbered(buffer, n++);
        learners::Snapshot snapshot = buffer.snapshot();
        REQUIRE(snapshot.rows() == std::min(before, 7));
        std::vector<float> row(static_cast<std::size_t>(at_a_time * snapshot.row_floats()));
        std::vector<int> seen;
        for (std::int64_t got = 0; (got = snapshot.read(at_a_time, row.data())) > 0;) {
          for (std::int64_t r = 0; r < got; ++r) {
            const float* values = row.data() + r * snapshot.row_floats();
            REQUIRE(values[0] == -values[6]);  // columns side by side
            seen.push_back(static_cast<int>(values[0]));
          }
          for (int k = 0; k < meanwhile; ++k) append_numbered(buffer, n++);
        }
        std::vector<int> expected;
        for (int k = std::max(0, before - 7); k < before; ++k) expected.push_back(k);
        REQUIRE(seen == expected);
      }
    }
  }
}

TEST_CASE("a snapshot is read in one thread while another one appends", "[property]") {
  learners::Buffer buffer = small_buffer(1000);
  int n = 0;
  while (n < 1500) append_numbered(buffer, n++);
  for (int round = 0; round < 20; ++round) {
    const int first = n - 1000;
    std::vector<int> seen;
    std::thread reader([&seen, snapshot = buffer.snapshot()]() mutable {
      std::vector<float> rows(static_cast<std::size_t>(16 * snapshot.row_floats()));
      for (std::int64_t got = 0; (got = snapshot.read(16, rows.data())) > 0;)
        for (std::int64_t r = 0; r < got; ++r)
          seen.push_back(static_cast<int>(rows[static_cast<std::size_t>(r * snapshot.row_floats())]));
    });
    for (int k = 0; k < 3000; ++k) append_numbered(buffer, n++);
    reader.join();
    REQUIRE(seen.size() == 1000);
    for (int k = 0; k < 1000; ++k) REQUIRE(seen[static_cast<std::size_t>(k)] == first + k);
  }
}

TEST_CASE("a buffer filled from a snapshot samples as the first one does", "[unit]") {
  for (const int held : {5, 10, 23}) {
    learners::Buffer one = small_buffer(10), other = small_buffer(10);
    for (int n = 0; n < held; ++n) append_numbered(one, n);
    append_numbered(other, 99);
    learners::Snapshot snapshot = one.snapshot();
    other.restart(one.size() == one.capacity() ? one.next_slot() : 0, one.appended() - one.size());
    std::vector<float> row(static_cast<std::size_t>(snapshot.row_floats()));
    while (snapshot.read(1, row.data()) == 1) other.append_row(row.data());
    CHECK(other.appended() == one.appended());
    for (int more = 0; more < 3; ++more) {
      learners::Batch a, b;
      draw_from(one, 50, 1, more, a);
      draw_from(other, 50, 1, more, b);
      CHECK(at::equal(a.columns[0], b.columns[0]));
      append_numbered(one, 100 + more);
      append_numbered(other, 100 + more);
    }
  }
}

TEST_CASE("a snapshot keeps what kernels are about to overwrite", "[unit]") {
  learners::Buffer buffer = small_buffer(7);
  for (int n = 0; n < 9; ++n) append_numbered(buffer, n);
  learners::Snapshot snapshot = buffer.snapshot();
  buffer.make_room(5);
  for (std::int64_t k = 0; k < 5; ++k) at::Tensor(buffer.column(0))[(buffer.next_slot() + k) % 7].fill_(-1);
  std::vector<float> row(7);
  for (int n = 2; snapshot.read(1, row.data()) == 1; ++n) CHECK(row[0] == static_cast<float>(n));
}

TEST_CASE("an empty buffer, a wrong number of columns and too much memory are errors", "[unit]") {
  learners::Buffer buffer = small_buffer(4);
  learners::Batch batch;
  CHECK_THROWS_AS(draw_from(buffer, 1, 1, 1, batch), core::Bug);
  const std::array<const float*, 1> one = {nullptr};
  CHECK_THROWS_AS(buffer.append(one), core::Bug);
  CHECK(buffer.payload_bytes() == 4 * 7 * 4);
#if !defined(__SANITIZE_ADDRESS__)
  CHECK_THROWS_WITH(small_buffer(std::int64_t{1} << 50), Catch::Contains("lower --buffer_size"));
#endif
}

TEST_CASE("a packed column keeps its few floats bit by bit and is shown unpacked", "[unit]") {
  // Stored: one float of any bits; shown: its two halves.
  const auto halves = [](const at::Tensor& storage, const at::Tensor& indices, at::Tensor& out) {
    for (std::int64_t r = 0; r < indices.size(0); ++r) {
      std::uint32_t bits;
      std::memcpy(&bits, storage.const_data_ptr<float>() + indices[r].item<std::int64_t>(), sizeof bits);
      out[r][0] = static_cast<float>(bits >> 16);
      out[r][1] = static_cast<float>(bits & 0xffffU);
    }
  };
  learners::Buffer buffer({{"a", {2}, {1, {}, halves}}, {"b", {1}}}, 5);
  CHECK(buffer.payload_bytes() == 5 * 2 * 4);
  for (std::uint32_t n = 0; n < 8; ++n) {
    const std::uint32_t bits = 0x7f800001U + (n << 16) * 0x81U;  // signalling NaNs among them
    float a;
    std::memcpy(&a, &bits, sizeof a);
    const float b = static_cast<float>(bits >> 16);
    const std::array<const float*, 2> values = {&a, &b};
    buffer.append(values);
  }
  CHECK(buffer.column(0).sizes() == at::IntArrayRef({5, 1}));
  learners::Batch batch;
  buffer.gather(at::arange(5), batch);
  REQUIRE(batch.columns[0].sizes() == at::IntArrayRef({5, 2}));
  for (std::int64_t r = 0; r < 5; ++r) {
    CHECK(batch.columns[0][r][0].item<float>() == batch.columns[1][r][0].item<float>());
    CHECK(batch.columns[0][r][1].item<float>() == 1.0F);
  }
}

TEST_CASE("all rows come oldest first, before the ring is full and after it went round", "[unit]") {
  learners::Buffer buffer = small_buffer(7);
  learners::Batch batch;
  for (int n = 0; n < 24; ++n) {
    append_numbered(buffer, n);
    const std::int64_t rows = std::min(n + 1, 7), oldest = rows == 7 ? buffer.next_slot() : 0;
    buffer.gather((at::arange(rows) + oldest).remainder(7), batch);
    REQUIRE(batch.columns[0].sizes() == at::IntArrayRef({rows, 3, 2}));
    REQUIRE(batch.columns[1].sizes() == at::IntArrayRef({rows, 1}));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto expected = static_cast<float>(n + 1 - rows + row);
      REQUIRE(batch.columns[0][row][0][0].item<float>() == expected);
      REQUIRE(batch.columns[1][row][0].item<float>() == -expected);
    }
  }
}

TEST_CASE("windows are consecutive rows of one game, and mark the rows that count", "[property]") {
  // Three threads of games in turn: row n is step s of its thread's game g.
  learners::Buffer buffer({{"of", {3}}, {"back", {1}}}, 50);
  const std::array<int, 3> lengths = {4, 7, 11};
  const auto step_of = [&](int n) { return n / 3 % lengths[static_cast<std::size_t>(n % 3)]; };
  for (int n = 0; n < 130; ++n) {
    const int length = lengths[static_cast<std::size_t>(n % 3)];
    const std::array<float, 3> of = {static_cast<float>(n % 3), static_cast<float>(n / 3 / length),
                                     static_cast<float>(step_of(n))};
    const std::array<float, 1> back = {step_of(n) == 0 ? 0.0F : 3.0F};
    const std::array<const float*, 2> values = {of.data(), back.data()};
    buffer.append(values);
    if (n != 30 && n != 129) continue;  // not full, and full
    const int oldest = std::max(0, n + 1 - 50);
    learners::Batch batch, again;
    for (learners::Batch* drawn : {&batch, &again}) {
      buffer.set_draws(5);
      buffer.sample_windows(200, 5, 3, *drawn);
    }
    REQUIRE(at::equal(batch.columns[0], again.columns[0]));
    const at::Tensor rows = batch.columns[0].view({200, 5, 3}), there = batch.columns[1].view({200, 5});
    std::set<int> ends;
    for (int w = 0; w < 200; ++w) {
      const auto value = [&](int place, int k) { return static_cast<int>(rows[w][place][k].item<float>()); };
      const int thread = value(4, 0), game = value(4, 1), step = value(4, 2);
      const int row = 3 * (game * lengths[static_cast<std::size_t>(thread)] + step) + thread;
      ends.insert(row);
      for (int place = 4; place >= 0; --place) {
        const int before = row - 3 * (4 - place);
        const bool counts = 4 - place <= step && before >= oldest;
        REQUIRE(there[w][place].item<float>() == (counts ? 1.0F : 0.0F));
        if (!counts) continue;
        REQUIRE(value(place, 0) == thread);
        REQUIRE(value(place, 1) == game);
        REQUIRE(value(place, 2) == step - (4 - place));
      }
    }
    CHECK(*ends.begin() >= oldest);
    CHECK(ends.size() > 25);
  }
  learners::Buffer without = small_buffer(4);
  append_numbered(without, 0);
  learners::Batch batch;
  CHECK_THROWS_AS(without.sample_windows(1, 2, 1, batch), core::Bug);
}
