// A cursor over bytes in memory that cannot be led outside them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {

/// The error for bytes that no complete file contains. The reader of the file adds its path.
inline core::FileError damaged(const std::string& what) {
  return core::FileError("the file is truncated or damaged (" + what + "): copy it again or use another one");
}

/// The start of a name from a file, safe to print on a terminal.
inline std::string printable(std::string_view name) {
  constexpr std::size_t kEnough = 100;
  std::string shown;
  for (const char c : name.substr(0, kEnough)) shown += c >= ' ' && c <= '~' ? c : '?';
  return name.size() <= kEnough ? shown : shown + "...";
}

/// Little-endian, as in all formats read here.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes, std::uint64_t position = 0) : bytes_(bytes) { seek(position); }

  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - position_; }

  void seek(std::uint64_t position) {
    if (position > bytes_.size()) throw damaged("points past the end");
    position_ = static_cast<std::size_t>(position);
  }
  std::string_view take(std::uint64_t count) {
    if (count > left()) {
      throw damaged("at byte " + std::to_string(position_) + " " + std::to_string(count) +
                    " bytes expected, " + std::to_string(left()) + " left");
    }
    const std::string_view taken = bytes_.substr(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }
  /// Up to the line end, which is skipped.
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) throw damaged("a line without an end");
    const std::string_view text = take(end - position_);
    ++position_;
    return text;
  }
  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view bytes_;
  std::size_t position_ = 0;
};

}  // namespace snake_ddp::io
