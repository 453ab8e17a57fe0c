#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "snake_ddp/core/random.hpp"

namespace snake_ddp::core {
namespace {

bool equal(const RandomBlock& a, const std::array<std::uint32_t, 4>& b) {
  return a.word[0] == b[0] && a.word[1] == b[1] && a.word[2] == b[2] && a.word[3] == b[3];
}

// Chi-square over its degrees of freedom; near 1 for draws from the distribution.
double chi_square_per_degree(const std::vector<std::uint32_t>& counts) {
  double total = 0;
  for (const auto count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const auto count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum / static_cast<double>(counts.size() - 1);
}

TEST_CASE("blocks are those of Philox4x32-10 in Random123's kat_vectors", "[unit]") {
  CHECK(equal(random_block(0, 0, 0, Purpose{0}), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  CHECK(equal(random_block(0xffffffffffffffff, 0xffffffffffffffff, 0xffffffff, Purpose{0xffffffff}),
              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK(equal(random_block(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x13198a2e, Purpose{0x03707344}),
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_CASE("a stream is its blocks one after the other, and can start at any of them", "[unit]") {
  RandomStream stream(7, 3, Purpose::kTest);
  std::vector<std::uint32_t> words(20);
  for (auto& word : words) word = stream.next();
  for (std::uint32_t block = 0; block < 5; ++block) {
    CHECK(equal(random_block(7, 3, block, Purpose::kTest),
                {words[4 * block], words[4 * block + 1], words[4 * block + 2], words[4 * block + 3]}));
  }
  RandomStream later(7, 3, Purpose::kTest, 3);
  CHECK(later.next() == words[12]);
}

TEST_CASE("another seed, stream, counter or purpose gives other words, in each of their halves", "[unit]") {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  const std::vector<RandomBlock> blocks{
      random_block(1, 1, 1, Purpose::kReset),         random_block(2, 1, 1, Purpose::kReset),
      random_block(1 + kHigh, 1, 1, Purpose::kReset), random_block(1, 2, 1, Purpose::kReset),
      random_block(1, 1 + kHigh, 1, Purpose::kReset), random_block(1, 1, 2, Purpose::kReset),
      random_block(1, 1, 1, Purpose::kStep)};
  std::set<std::uint32_t> words;
  for (const auto& block : blocks) words.insert(block.word, block.word + 4);
  CHECK(words.size() == 4 * blocks.size());
}

TEST_CASE("below covers 0 to n-1, ends included, and evenly", "[unit]") {
  CHECK(below(0, 7) == 0);
  CHECK(below(0xffffffff, 7) == 6);
  CHECK(below(0xffffffff, 1) == 0);
  CHECK(below(0x7fffffff, 2) == 0);
  CHECK(below(0x80000000, 2) == 1);
  for (const std::uint32_t n : {2U, 3U, 4U, 5U, 7U, 200U}) {
    RandomStream stream(11, n, Purpose::kTest);
    std::vector<std::uint32_t> counts(n);
    for (int i = 0; i < 1'000'000; ++i) ++counts.at(stream.below(n));
    INFO(n);
    // Five standard deviations of the statistic, which is about sqrt(2 / degrees).
    CHECK(std::abs(chi_square_per_degree(counts) - 1) < 5 * std::sqrt(2.0 / (n - 1)));
  }
}

TEST_CASE("unit draws lie in [0, 1), with the mean and variance of an even spread", "[unit]") {
  CHECK(unit_float(0) == 0.0F);
  CHECK(unit_float(0xffffffff) == 1.0F - 1.0F / 16777216.0F);
  CHECK(unit_float(0x80000000) == 0.5F);
  RandomStream stream(12, 0, Purpose::kTest);
  constexpr int kDraws = 1'000'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.unit();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(0.5).margin(5 * std::sqrt(1.0 / 12 / kDraws)));
  CHECK(squares / kDraws - mean * mean == Approx(1.0 / 12).margin(5 * std::sqrt(1.0 / 180 / kDraws)));
}

TEST_CASE("neighbouring streams and purposes do not follow each other", "[unit]") {
  constexpr int kDraws = 100'000;
  const std::array<RandomStream, 3> others{RandomStream(5, 1, Purpose::kAct),
                                           RandomStream(6, 0, Purpose::kAct),
                                           RandomStream(5, 0, Purpose::kExplore)};
  for (RandomStream other : others) {
    RandomStream one(5, 0, Purpose::kAct);
    double product = 0;
    for (int i = 0; i < kDraws; ++i) product += (one.unit() - 0.5) * (other.unit() - 0.5);
    CHECK(std::abs(12 * product / kDraws) < 5 / std::sqrt(kDraws));
  }
}

}  // namespace
}  // namespace snake_ddp::core
