// Counter-based random streams: a block of four words is a pure function of (seed, stream, counter, purpose),
// so boards, ranks and steps can be drawn in any order, on the host and on the device, with the same result.
#pragma once

#include <cstdint>

#include "snake_ddp/core/host_device.hpp"

// Random123's headers cause these warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

namespace snake_ddp::core {

/// What a draw is for. Each purpose has its own stream; the values are part of reproducibility: never
/// renumber them.
enum class Purpose : std::uint32_t {
  kReset = 1,     // first positions and beans of a game
  kStep = 2,      // replaced reversals and new beans
  kOpponent = 3,  // moves of random opponents
  kAct = 4,       // moves sampled from the policy
  kExplore = 5,   // epsilon draws and random action vectors
  kSample = 6,    // replay sampling
  kInit = 7,      // initial weights
  kTest = 8,      // tests and benches
  kRival = 9,     // which opponent of a mix a game gets
  kSearch = 10,   // imagined moves and chance of a searching player
  kShuffle = 20,  // the order of an epoch
  kMask = 21,     // which snakes are masked, and which one observes
  kRevive = 22,   // where unused codes are moved
};

struct RandomBlock {
  std::uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) through Random123.
/// Cost  about 40 cycles.
SD_HD inline RandomBlock random_block(std::uint64_t seed, std::uint64_t stream, std::uint32_t counter,
                                      Purpose purpose) {
  const r123::Philox4x32::ctr_type c{{static_cast<std::uint32_t>(stream),
                                      static_cast<std::uint32_t>(stream >> 32), counter,
                                      static_cast<std::uint32_t>(purpose)}};
  const r123::Philox4x32::key_type k{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type r = r123::Philox4x32()(c, k);
  return {{r[0], r[1], r[2], r[3]}};
}

/// Maps a word to 0..n-1 by multiplication; the bias is below n / 2^32.
SD_HD inline std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

/// Maps a word to [0, 1) with 24 bits.
SD_HD inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

/// A sequence of words from one (seed, stream, purpose): block after block.
class RandomStream {
 public:
  SD_HD RandomStream(std::uint64_t seed, std::uint64_t stream, Purpose purpose, std::uint32_t counter = 0)
      : seed_(seed), stream_(stream), purpose_(purpose), counter_(counter) {}

  SD_HD std::uint32_t next() {
    if (used_ == 4) {
      block_ = random_block(seed_, stream_, counter_++, purpose_);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  SD_HD std::uint32_t below(std::uint32_t n) { return core::below(next(), n); }
  SD_HD float unit() { return unit_float(next()); }

 private:
  std::uint64_t seed_, stream_;
  Purpose purpose_;
  std::uint32_t counter_;
  RandomBlock block_{};
  std::uint32_t used_ = 4;
};

}  // namespace snake_ddp::core
