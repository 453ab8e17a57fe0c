// Values of a recorded file's JSON. Every value is checked; a fault names file, line, step and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace snake_ddp::io {

/// Where a value is, for messages. `path` must outlive it.
struct FilePosition {
  const std::string& path;
  std::int64_t line;
  std::string step = {};  // "step 17: " in a log

  /// Throws  FileError.
  [[noreturn]] void fail(const std::string& what) const;
};

/// A value for a message, at most 60 characters of it.
std::string shown(const nlohmann::json& value);

/// The functions below return what is in the file, or throw FileError by FilePosition::fail. `name` is the field's, for messages.
/// Throws  also for text that is not one JSON object.
nlohmann::json parsed(const std::string& text, const FilePosition& position);
/// Refers into `object`.
const nlohmann::json& field(const nlohmann::json& object, const char* name, const FilePosition& position);
int integer(const nlohmann::json& value, int low, int high, const char* name, const FilePosition& position);
/// `value` itself: a list of `least` to `most` elements.
const nlohmann::json& list(const nlohmann::json& value, std::size_t least, std::size_t most, const char* name,
                           const FilePosition& position);
std::vector<int> integers(const nlohmann::json& value, std::size_t most, int low, int high, const char* name,
                          const FilePosition& position);

/// The member of `object`, null if it is not there or null.
const nlohmann::json* given(const nlohmann::json& object, const char* name);
/// As Python writes it.
std::string number_text(const nlohmann::json& number);
/// A text, or a number as text; empty if it is not given.
std::string text_of(const nlohmann::json& object, const char* name, const FilePosition& position);
/// `only`, which may be a text: databases store numbers so.
int number(const nlohmann::json& object, const char* name, int only, const FilePosition& position);
/// Parses members that are texts of lists and objects: old logs and databases have them so.
void unwrap_members(nlohmann::json& object, const FilePosition& position);

}  // namespace snake_ddp::io
