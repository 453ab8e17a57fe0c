#include "io/json_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json_fields.hpp"
#include "io/json_text.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {
namespace {

constexpr std::size_t kMostObjectBytes = 64U << 20U;
constexpr std::size_t kMostStrayBytes = 60;
constexpr std::string_view kBlanks = " \t\r\n", kBetween = ", \t\r\n";

bool opens(char c) { return c == '{' || c == '['; }
bool closes(char c) { return c == '}' || c == ']'; }

// Where a text is within brackets and quotes, character by character.
struct Nesting {
  int depth = 0;
  bool quoted = false, escaped = false;

  /// Whether it is outside of `outer` brackets and of quotes after this character.
  bool left_after(char c, int outer) {
    if (quoted) {
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (opens(c)) {
      ++depth;
    } else if (closes(c)) {
      --depth;
    }
    return depth <= outer && !quoted;
  }
};

// The end of the value that begins at `at`, or that of the text.
std::size_t value_end(std::string_view text, std::size_t at) {
  if (text[at] != '"' && !opens(text[at]))
    return std::min(std::max(text.find_first_of(",]} \t\r\n", at), at + 1), text.size());
  Nesting nesting;
  while (at < text.size())
    if (nesting.left_after(text[at++], 0)) return at;
  return text.size();
}

}  // namespace

// Leaves `stray` empty, or puts there what stands where an object should.
void ObjectReader::skip_to_object(std::string& stray) {
  stray.clear();
  for (; more(); left_.remove_prefix(1)) {
    const char c = left_.front();
    const bool between = kBetween.find(c) != kBetween.npos || c == '[' || c == ']';
    if (!stray.empty() && (between || stray.size() >= kMostStrayBytes)) return;
    if (c == '\n') ++line_;
    if (c == '[' && lists_++ == 0) list_begin_ = line_;
    if (lists_ > kMostJsonDepth || (c == ']' && --lists_ < 0)) {
      stray = lists_ < 0 ? std::string("]") : std::string(kMostJsonDepth + 1, '[');
      return;
    }
    if (between) continue;
    if (c == '{' && stray.empty()) return;
    if (stray.empty()) begin_ = line_;
    stray += c;
  }
}

void ObjectReader::take_object(std::string& text) {
  text.clear();
  Nesting nesting{lists_};
  while (more()) {
    std::size_t n = 0;
    bool whole = false;
    for (; n < left_.size() && !whole; ++n) {
      whole = nesting.left_after(left_[n], lists_);
      if (left_[n] == '\n') ++line_;
      if (nesting.depth > kMostJsonDepth)
        FilePosition{bytes_.path(), begin_}.fail(
            fmt::format("not JSON: brackets more than {} deep", kMostJsonDepth));
    }
    text.append(left_.substr(0, n));
    left_.remove_prefix(n);
    if (whole) return;
    if (text.size() > kMostObjectBytes)
      FilePosition{bytes_.path(), begin_}.fail(
          "not JSON: the bracket that opens here is not closed within 64 MiB");
  }
  FilePosition{bytes_.path(), begin_}.fail(
      "not JSON: the file ends within the object that begins here: it is truncated; fetch or write it again");
}

bool ObjectReader::next(std::string& text) {
  skip_to_object(text);
  const FilePosition here{bytes_.path(), line_};
  if (!text.empty()) {
    parsed(text, here);  // says what is wrong
    here.fail("not a JSON object");
  }
  begin_ = line_;
  if (more()) {
    take_object(text);
    return true;
  }
  if (lists_ > 0)
    FilePosition{bytes_.path(), list_begin_}.fail(
        "not JSON: the file ends within the list that begins here: it is truncated; fetch or write it again");
  return false;
}

void visit_parts(std::string_view text,
                 const std::function<void(std::string_view, std::string_view)>& visit) {
  if (text.empty() || !opens(text.front())) return;
  const bool object = text.front() == '{';
  for (std::size_t at = 1; (at = text.find_first_not_of(kBetween, at)) != text.npos && !closes(text[at]);) {
    std::string_view key;
    if (object) {
      const std::size_t end = value_end(text, at);
      const std::size_t colon = text.find_first_not_of(kBlanks, end);
      if (text[at] != '"' || colon == text.npos || text[colon] != ':') return;
      key = text.substr(at + 1, end - at - 2);
      at = text.find_first_not_of(kBlanks, colon + 1);
      if (at == text.npos) return;
    }
    const std::size_t end = value_end(text, at);
    visit(key, text.substr(at, end - at));
    at = end;
  }
}

}  // namespace snake_ddp::io
