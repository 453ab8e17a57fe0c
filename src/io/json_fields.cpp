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

}  // namespace snake_ddp::io
