#include "snake_ddp/records/json_fields.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/text.hpp"
#include "snake_ddp/records/json_text.hpp"

namespace snake_ddp::records {

using nlohmann::json;

void Place::fail(const std::string& what) const {
  throw base::FileError(fmt::format("{}:{}: {}{}", path, line, step, what));
}

std::string shown(const json& value) {
  constexpr std::size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

json parsed(const std::string& text, const Place& place) {
  json value;
  try {
    value = parse_json(text);
  } catch (const base::FileError& e) {
    place.fail(e.what());
  }
  if (!value.is_object()) place.fail("not a JSON object");
  return value;
}

const json& field(const json& object, const char* name, const Place& place) {
  if (!object.is_object()) place.fail(fmt::format("no object with the field \"{}\"", name));
  const auto at = object.find(name);
  if (at == object.end()) place.fail(fmt::format("field \"{}\" is missing", name));
  return *at;
}

int integer(const json& value, int low, int high, const char* name, const Place& place) {
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT32_MAX)) {
    const auto n = value.get<std::int64_t>();
    if (n >= low && n <= high) return static_cast<int>(n);
  }
  place.fail(fmt::format("field \"{}\": {} is not an integer {}..{}", name, shown(value), low, high));
}

const json& list(const json& value, std::size_t least, std::size_t most, const char* name,
                 const Place& place) {
  if (!value.is_array()) place.fail(fmt::format("field \"{}\": {} is not a list", name, shown(value)));
  if (value.size() >= least && value.size() <= most) return value;
  place.fail(fmt::format("field \"{}\" has {}, {}", name, base::counted(value.size(), "element"),
                         least == most ? fmt::format("not {}", least) : fmt::format("at most {}", most)));
}

std::vector<int> integers(const json& value, std::size_t most, int low, int high, const char* name,
                          const Place& place) {
  std::vector<int> result;
  for (const json& element : list(value, 0, most, name, place))
    result.push_back(integer(element, low, high, name, place));
  return result;
}

}  // namespace snake_ddp::records
