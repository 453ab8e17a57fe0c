#include "snake_ddp/base/json_fault.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "snake_ddp/base/text.hpp"

namespace snake_ddp::base {

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

}  // namespace snake_ddp::base
