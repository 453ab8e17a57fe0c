#include "snake_ddp/core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "snake_ddp/core/printable.hpp"

namespace snake_ddp::core {
namespace {

// Bytes of the character that `text` begins with, and its code; no bytes if these are not UTF-8.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const std::size_t bytes = byte(0) < 0xc2   ? 0
                            : byte(0) < 0xe0 ? 2
                            : byte(0) < 0xf0 ? 3
                            : byte(0) < 0xf5 ? 4
                                             : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  std::uint32_t code = byte(0) & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  // Only the shortest form of a character is valid; surrogates belong to UTF-16.
  if (bytes == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return {};
  if (bytes == 4 && (code < 0x10000 || code > 0x10ffff)) return {};
  return {bytes, code};
}

// Those that move the cursor, begin a command, or turn the order of what follows.
bool controls_a_terminal(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

// `text` with an escape for each byte that is not UTF-8, and for each character that `hides` names.
template <class Hides>
std::string escaped(std::string_view text, const Hides& hides) {
  std::string out;
  while (!text.empty()) {
    const auto [bytes, code] = first_character(text);
    if (bytes > 0 && !hides(code))
      out += text.substr(0, bytes);
    else if (code < 0x20)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else
      out += fmt::format("\\u{:04x}", code);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  return escaped(text, [](std::uint32_t) { return false; });
}

std::string printable(std::string_view text) {
  return escaped(
      text, [](std::uint32_t code) { return code != '\n' && code != '\t' && controls_a_terminal(code); });
}

std::string printable_line(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (!out.empty() && out.back() == '\n' && c != ' ' && c != '\t' && c != '\n') out += "  ";
    out += c;
  }
  return out;
}

std::string as_plain(std::string_view text) { return escaped(text, controls_a_terminal); }

std::string json_fault(std::string_view text, std::size_t bytes) {
  constexpr std::string_view kSpace = " \t\r\n";
  constexpr std::size_t kShown = 30;
  if (text.find_first_not_of(kSpace) == text.npos) return "there is nothing in it";
  if (bytes > text.size()) return fmt::format("it ends too early, at {}", json_fault(text, text.size()));
  const std::string_view read = text.substr(0, bytes);
  const std::size_t line_start = read.rfind('\n', bytes < 1 ? 0 : bytes - 1);
  const std::string_view line = read.substr(line_start == read.npos ? 0 : line_start + 1);
  std::string shown = as_utf8(line.substr(line.size() - std::min(line.size(), kShown)));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return fmt::format("line {}, column {}, after {}", 1 + std::count(read.begin(), read.end(), '\n'),
                     line.size(), shown);
}

std::string plain_json_error(std::string_view what) {
  constexpr std::size_t kMost = 300;
  const std::size_t name = what.find("] ");
  std::string text = as_utf8(what.substr(name == what.npos ? 0 : name + 2));
  if (text.size() > kMost) text = as_utf8(text.substr(0, kMost)) + "...";
  return text;
}

}  // namespace snake_ddp::core
