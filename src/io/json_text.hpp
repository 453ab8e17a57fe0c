// JSON from untrusted sources.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace snake_ddp::io {

/// Our own files have less nesting, and at most a seventh as many values (the log of a whole game). The library
/// takes up to a hundred bytes of memory for a two-character value, and prints and copies nested ones by recursion.
inline constexpr int kMostJsonDepth = 32;
inline constexpr std::size_t kMostJsonValues = std::size_t{1} << 20U;

/// Parses `text`.
/// Throws  FileError "not JSON..." with the reason, if the text is invalid, exceeds the limits above, or has a string with a NUL
///         character or an object with a key that is there twice. The caller adds the file's name.
nlohmann::json parse_json(std::string_view text);

/// Parses JSON with keys in the file's order.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

/// Throws  what parse_json does, but for any number of values: an answer may have a thousand games.
void check_json(std::string_view text);

}  // namespace snake_ddp::io
