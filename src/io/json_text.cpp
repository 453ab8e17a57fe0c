#include "snake_ddp/io/json_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::io {
namespace {

template <class Json>
Json parse_within_limits(std::string_view text) {
  using Event = typename Json::parse_event_t;
  std::size_t values = 0;
  const auto count = [&values](int depth, Event event, Json&) {
    if (depth > kMostJsonDepth)
      throw base::FileError(fmt::format("not JSON: brackets more than {} deep", kMostJsonDepth));
    values += event == Event::value || event == Event::array_start || event == Event::object_start ? 1U : 0U;
    if (values > kMostJsonValues)
      throw base::FileError(fmt::format("not JSON: more than {} values", kMostJsonValues));
    return true;
  };
  try {
    return Json::parse(text, count);
  } catch (const typename Json::exception& e) {
    const std::string why = e.what();  // may quote a token as long as the file
    throw base::FileError("not JSON: " + (why.size() <= 300 ? why : why.substr(0, 300) + "..."));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return parse_within_limits<nlohmann::json>(text); }

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse_within_limits<nlohmann::ordered_json>(text);
}

}  // namespace snake_ddp::io
