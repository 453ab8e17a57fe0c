// HTML pages with embedded data.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "snake_ddp/base/check.hpp"

namespace snake_ddp::app {

/// The page with `data` in place of the `null` in its element `id`. Nothing in the data is markup.
inline std::string with_data(std::string_view html, std::string_view id, const nlohmann::ordered_json& data) {
  // Plain ASCII without the characters that are special in HTML, which only occur in strings.
  std::string text;
  for (const char c : data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  constexpr std::string_view kNull = "null";
  const std::string place = fmt::format("<script type=\"application/json\" id=\"{}\">{}", id, kNull);
  std::string page(html);
  const std::size_t at = page.find(place);
  SD_CHECK(at != std::string::npos, "the page has no element for its data");
  return page.replace(at + place.size() - kNull.size(), kNull.size(), text);
}

}  // namespace snake_ddp::app
