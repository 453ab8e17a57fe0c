#include "io/json_fields.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/json_text.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {

using nlohmann::json;

void FilePosition::fail(const std::string& what) const {
  throw core::FileError(fmt::format("{}:{}: {}{}", path, line, step, what));
}

std::string shown(const json& value) {
  constexpr std::size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

json parsed(const std::string& text, const FilePosition& position) {
  json value;
  try {
    value = parse_json(text);
  } catch (const core::FileError& e) {
    position.fail(e.what());
  }
  if (!value.is_object()) position.fail("not a JSON object");
  return value;
}

const json& field(const json& object, const char* name, const FilePosition& position) {
  if (!object.is_object()) position.fail(fmt::format("no object with the field \"{}\"", name));
  const auto at = object.find(name);
  if (at == object.end()) position.fail(fmt::format("field \"{}\" is missing", name));
  return *at;
}

int integer(const json& value, int low, int high, const char* name, const FilePosition& position) {
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT32_MAX)) {
    const auto n = value.get<std::int64_t>();
    if (n >= low && n <= high) return static_cast<int>(n);
  }
  position.fail(fmt::format("field \"{}\": {} is not an integer {}..{}", name, shown(value), low, high));
}

const json& list(const json& value, std::size_t least, std::size_t most, const char* name,
                 const FilePosition& position) {
  if (!value.is_array()) position.fail(fmt::format("field \"{}\": {} is not a list", name, shown(value)));
  if (value.size() >= least && value.size() <= most) return value;
  position.fail(fmt::format("field \"{}\" has {}, {}", name, core::counted(value.size(), "element"),
                            least == most ? fmt::format("not {}", least) : fmt::format("at most {}", most)));
}

std::vector<int> integers(const json& value, std::size_t most, int low, int high, const char* name,
                          const FilePosition& position) {
  std::vector<int> result;
  for (const json& element : list(value, 0, most, name, position))
    result.push_back(integer(element, low, high, name, position));
  return result;
}

const json* given(const json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// With as few digits as tell it from others; the library has some floats with more. An integer beyond 64 bits is a float here.
std::string number_text(const json& number) {
  if (!number.is_number_float()) return number.dump();
  const std::string text = fmt::format("{}", number.get<double>());
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

std::string text_of(const json& object, const char* name, const FilePosition& position) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return {};
  if (at->is_number()) return number_text(*at);
  if (!at->is_string()) position.fail(fmt::format("field \"{}\": {} is not a string", name, shown(*at)));
  return at->get<std::string>();
}

int number(const json& object, const char* name, int only, const FilePosition& position) {
  const json& value = field(object, name, position);
  if (value == std::to_string(only)) return only;
  return integer(value, only, only, name, position);
}

void unwrap_members(json& object, const FilePosition& position) {
  if (!object.is_object()) return;
  for (const auto& [name, value] : object.items()) {
    const auto* const text = value.get_ptr<const std::string*>();
    if (text == nullptr || !(text->starts_with('[') || text->starts_with('{'))) continue;
    try {
      value = parse_json(*text);
    } catch (const core::FileError&) {
      position.fail(fmt::format("field \"{}\": {} is neither a list nor an object", name, shown(value)));
    }
  }
}

}  // namespace snake_ddp::io
