// Files with several JSON values: one on each line, one after the other, or elements of a list; and a value's parts, found
// without parsing the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/lines.hpp"

namespace snake_ddp::io {

/// Reads a file's objects one after the other, whatever is between them: line breaks, nothing, or commas and brackets of lists.
/// Throws  FileError with the line for anything else between them, a file that ends within an object or a list, brackets
///         more than kMostJsonDepth deep, and an object of more than 64 MiB; and as ByteReader.
class ObjectReader {
 public:
  explicit ObjectReader(const std::string& path) : bytes_(path) {}

  /// The next object's text into `text`, which is JSON only as far as its brackets and quotes match; false at the end.
  bool next(std::string& text);
  /// Where it begins, from 1.
  [[nodiscard]] std::int64_t line_number() const { return begin_; }

 private:
  [[nodiscard]] bool more() { return !left_.empty() || !(left_ = bytes_.next()).empty(); }
  void skip_to_object(std::string& stray);
  void take_object(std::string& text);

  ByteReader bytes_;
  std::string_view left_;
  std::int64_t line_ = 1, begin_ = 1, list_begin_ = 1;
  int lists_ = 0;  // open ones
};

/// Calls `visit` with key and value of each member of an object, or an empty key and each element of a list, as they
/// are in `text`. Text that is not JSON has some of its parts visited.
void visit_parts(std::string_view text,
                 const std::function<void(std::string_view key, std::string_view value)>& visit);

}  // namespace snake_ddp::io
