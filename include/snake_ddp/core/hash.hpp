// FNV-1a (Fowler, Noll, Vo), to compare things by hash. It does not protect against deliberate collisions.
#pragma once

#include <cstdint>
#include <string_view>

namespace snake_ddp::core {

inline constexpr std::uint64_t kHashStart = 14695981039346656037ULL;

/// The hash of `hash`'s input followed by `word`.
constexpr std::uint64_t add_to_hash(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 1099511628211ULL;
}

/// Adds each byte of `text`.
constexpr std::uint64_t add_to_hash(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = add_to_hash(hash, std::uint64_t{static_cast<std::uint8_t>(c)});
  return hash;
}

}  // namespace snake_ddp::core
