// The tokenizer's parameter blocks by index, in the order of tokenizer_blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snake_ddp::nets::tokenizer {

inline constexpr std::int64_t kLayers = 2, kDecoderWidth = 128;

enum : std::size_t { kPlaces, kIn, kInBias, kLayer };
enum : std::size_t { kOwn, kNear, kAll, kLayerBias, kLayerBlocks };
enum : std::size_t {
  kLatent = kLayer + kLayers * kLayerBlocks,
  kLatentBias,
  kCodes,
  kDecode,
  kDecodeBias,
  kOut,
  kOutBias,
  kBlocks
};

}  // namespace snake_ddp::nets::tokenizer
