// Text from outside: arguments, names, system messages.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snake_ddp::base {

/// Whether `text` is UTF-8, as JSON requires.
bool is_utf8(std::string_view text);

/// `text` with each byte that is not part of UTF-8 replaced by an escape such as \xe9.
std::string as_utf8(std::string_view text);

/// "1 rank", "2 ranks".
std::string counted(std::int64_t count, std::string_view what);

/// `text` as a number; nothing if any of it is not part of the number, or the number does not fit.
template <class Number>
std::optional<Number> try_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace snake_ddp::base
