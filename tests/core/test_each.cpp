#include "snake_ddp/core/each.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "../host_loops.hpp"

using namespace snake_ddp;

TEST_CASE("a grid has one place for each index", "[unit]") {
  for (const unsigned per_block : {1U, 4U, 32U, 64U, 256U}) {
    for (const std::int64_t count : {0, 1, 63, 64, 65, 65'536, 1'048'576}) {
      CAPTURE(per_block, count);
      std::vector<std::uint8_t> done(static_cast<std::size_t>(count));
      in_blocks_of(per_block)(count, [&](std::int64_t i) { ++done.at(static_cast<std::size_t>(i)); });
      CHECK(std::count(done.begin(), done.end(), 1) == count);
      CHECK((core::blocks_of(count, per_block) - 1) * per_block < count);
    }
  }
}

TEST_CASE("a grid has more indices than 32 bits count, and a limit", "[unit]") {
  constexpr std::int64_t kMost = core::kMostBlocks * 64;
  CHECK(core::blocks_of(kMost, 64) == core::kMostBlocks);
  CHECK(core::blocks_of(kMost + 1, 64) == 0);
  CHECK(core::blocks_of((std::int64_t{1} << 32) + 1, 4) == (std::int64_t{1} << 30) + 1);
  const auto last = static_cast<unsigned>(core::kMostBlocks - 1);
  CHECK(core::index_at(last, 64, 63) == kMost - 1);
  CHECK(core::index_at(1U << 30, 4, 3) == (std::int64_t{1} << 32) + 3);
}
