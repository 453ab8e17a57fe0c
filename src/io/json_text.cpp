#include "io/json_text.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

// Checks a text before any value is built. The library's own callback, which runs while it builds them, takes time
// quadratic in an array's length.
template <class Json>
struct Limits {
  Limits(std::string_view text, std::size_t most) : all(text), most_values(most) {}

  const std::string_view all;
  const std::size_t most_values;
  int depth = 0;
  std::size_t values = 0;
  std::string last_key;
  std::vector<std::set<std::string>> keys;  // of each open object

  // Names of files and folders end at it.
  void refuse_nul(const std::string& text) const {
    if (text.find('\0') != text.npos)
      throw core::FileError(
          fmt::format("not JSON that can be used: {} has a NUL character (\\u0000)",
                      last_key.empty() ? "a text" : "\"" + core::printable(last_key) + "\""));
  }

  bool value() {
    if (++values > most_values)
      throw core::FileError(fmt::format("not JSON: more than {} values", most_values));
    return true;
  }
  bool open() {
    if (++depth > kMostJsonDepth)
      throw core::FileError(fmt::format("not JSON: brackets more than {} deep", kMostJsonDepth));
    return value();
  }
  bool close() {
    --depth;
    return true;
  }

  // What sax_parse calls.
  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(typename Json::number_integer_t) { return value(); }
  bool number_unsigned(typename Json::number_unsigned_t) { return value(); }
  bool number_float(typename Json::number_float_t, const typename Json::string_t&) { return value(); }
  bool string(typename Json::string_t& text) {
    refuse_nul(text);
    return value();
  }
  bool binary(typename Json::binary_t&) { return value(); }
  bool key(typename Json::string_t& name) {
    refuse_nul(name);
    last_key = name;
    if (!keys.back().insert(name).second)  // readers would differ in which value they take
      throw core::FileError(
          fmt::format("not JSON that can be used: key \"{}\" is there twice", core::printable(name)));
    return true;
  }
  bool start_object(std::size_t) {
    keys.emplace_back();
    return open();
  }
  bool start_array(std::size_t) { return open(); }
  bool end_object() {
    keys.pop_back();
    return close();
  }
  bool end_array() { return close(); }
  bool parse_error(std::size_t at, const std::string&, const typename Json::exception& e) {
    // Others may quote a token as long as the file.
    const bool is_syntax = dynamic_cast<const typename Json::parse_error*>(&e) != nullptr;
    throw core::FileError("not JSON: " +
                          (is_syntax ? core::json_fault(all, at) : core::plain_json_error(e.what())));
  }
};

template <class Json>
Json parse_within_limits(std::string_view text) {
  Limits<Json> limits(text, kMostJsonValues);
  Json::sax_parse(text, &limits);
  return Json::parse(text);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return parse_within_limits<nlohmann::json>(text); }

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse_within_limits<nlohmann::ordered_json>(text);
}

void check_json(std::string_view text) {
  Limits<nlohmann::json> limits(text, std::numeric_limits<std::size_t>::max());
  nlohmann::json::sax_parse(text, &limits);
}

}  // namespace snake_ddp::io
