// Text from outside: arguments, names, system messages.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snake_ddp::core {

/// Whether `text` is UTF-8, as JSON requires.
bool is_utf8(std::string_view text);

/// `text` with each byte that is not part of UTF-8 replaced by an escape such as \xe9.
std::string as_utf8(std::string_view text);

/// "1 rank", "2 ranks", "2 matches": wherever a message has a number before what it counts.
template <std::integral Number>
std::string counted(Number count, std::string_view what) {
  const bool hisses = what.ends_with('s') || what.ends_with("ch") || what.ends_with("sh");
  std::string text = std::to_string(count);
  text.append(" ").append(what);
  return count == 1 ? text : text + (hisses ? "es" : "s");
}

/// `text` as a number; nothing if any of it is not part of the number, or the number does not fit.
template <class Number>
std::optional<Number> try_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// Where a parser gave up: "line 2, column 7, after {"a": 1,,". `bytes` is how many it had read.
std::string json_fault(std::string_view text, std::size_t bytes);

/// The message of the JSON library's exception without the exception's name.
std::string plain_json_error(std::string_view what);

}  // namespace snake_ddp::core
