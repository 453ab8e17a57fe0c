#include "io/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/json_fields.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

using core::UsageError;

constexpr int kMostDepth = 8;  // config.json's "run" has lists

// Whole numbers in groups of three digits: 10,000,000.
std::string bound_text(double bound) {
  if (std::abs(bound) > 9e18 || bound != std::floor(bound)) return fmt::format("{:g}", bound);
  std::string text = std::to_string(static_cast<std::int64_t>(bound));
  for (std::size_t at = text.size(); at > 3 + (bound < 0 ? 1U : 0U);) text.insert(at -= 3, 1, ',');
  return text;
}

std::string range_text(const Field& f) {
  const bool low = std::isfinite(f.least);
  const bool high = std::isfinite(f.most);
  if (low && high) return fmt::format("from {} to {}", bound_text(f.least), bound_text(f.most));
  if (low) return fmt::format("at least {}", bound_text(f.least));
  if (high) return fmt::format("at most {}", bound_text(f.most));
  return "any number";
}

// A long double holds each 64-bit integer exactly.
void check_number(const Field& f, long double value, const std::string& shown) {
  if (!(value >= f.least && value <= f.most)) {
    throw UsageError(fmt::format("--{} {}: out of range; allowed: {}", f.name, shown, range_text(f)));
  }
}

void check_choice(const Field& f, const std::string& value) {
  if (f.choices.empty() || std::find(f.choices.begin(), f.choices.end(), value) != f.choices.end()) return;
  throw UsageError(fmt::format("--{} {:.60}: not a known value; allowed: {}", f.name, core::as_plain(value),
                               fmt::join(f.choices, ", ")));
}

struct TextSetter {
  const Field& f;
  const std::string& text;

  void operator()(bool* target) const {
    const std::optional<bool> value = switch_value(text);
    if (!value) throw UsageError(fmt::format("--{} {}: expected on or off", f.name, text));
    *target = *value;
  }
  void operator()(std::int64_t* target) const {
    const auto value = core::try_number<std::int64_t>(text);
    if (!value)
      throw UsageError(fmt::format("--{} {}: not a whole number; allowed: {}", f.name, text, range_text(f)));
    check_number(f, static_cast<long double>(*value), text);
    *target = *value;
  }
  void operator()(double* target) const {
    const auto value = core::try_number<double>(text);
    if (!value)
      throw UsageError(fmt::format("--{} {}: not a number; allowed: {}", f.name, text, range_text(f)));
    check_number(f, *value, text);
    *target = *value;
  }
  void operator()(std::string* target) const {
    check_choice(f, text);
    *target = text;
  }
};

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void refuse_nul(const std::string& key, const nlohmann::json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
    throw UsageError(fmt::format("key {}: a NUL character (\\u0000) in {}", key, shown(value)));
}

// Settings are one object of plain values. The library prints nested ones by recursion: a file of brackets alone
// would overflow the stack. Of two values with one key it would keep the last.
nlohmann::json::parser_callback_t only_settings(const std::string& section) {
  return [section, seen = std::set<std::string>(), outer = std::string(), last = std::string()](
             int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) mutable {
    if (depth > kMostDepth) throw UsageError("nested too deeply for settings");
    if (depth <= 2 && event == nlohmann::json::parse_event_t::key) {  // of the file, or of a section
      const std::string key = with_underscores(parsed.get<std::string>());
      if (depth == 1) outer = key;
      const bool sets = depth == 1 || (!section.empty() && outer == section);
      if (sets && !seen.insert(depth == 1 ? key : outer + '\n' + key).second)
        throw UsageError(fmt::format("key {} is there twice", shown(parsed)));
    }
    if (event == nlohmann::json::parse_event_t::key) last = shown(parsed);
    if (event == nlohmann::json::parse_event_t::key || event == nlohmann::json::parse_event_t::value)
      refuse_nul(last, parsed);
    return true;
  };
}

// The message for text that is not JSON. Other formats for settings are known by their files' names.
std::string not_settings(const std::string& where, const std::string& fault) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {".yaml", "YAML"}, {".yml", "YAML"}, {".toml", "TOML"}, {".ini", "INI"}};
  for (const auto& [ending, format] : kOthers)
    if (where.ends_with(ending))
      return fmt::format("{} is not JSON. snake_ddp reads JSON (with comments), not {}.", where, format);
  return fmt::format("{}: not valid JSON: {}", where, fault);
}

void set_one_from_json(const Field& f, const nlohmann::json& value, const std::string& where) {
  const auto wrong_type = [&](const char* expected) {
    return UsageError(fmt::format("{}: \"{}\": {} is not {}", where, f.name, shown(value), expected));
  };
  try {
    if (auto* const* flag = std::get_if<bool*>(&f.target)) {
      if (!value.is_boolean()) throw wrong_type("true or false");
      **flag = value.get<bool>();
    } else if (auto* const* whole = std::get_if<std::int64_t*>(&f.target)) {
      if (!value.is_number_integer()) throw wrong_type("a whole number");
      check_number(f,
                   value.is_number_unsigned() ? static_cast<long double>(value.get<std::uint64_t>())
                                              : static_cast<long double>(value.get<std::int64_t>()),
                   shown(value));
      if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)
        throw UsageError(fmt::format("--{} {}: out of range", f.name, shown(value)));
      **whole = value.get<std::int64_t>();
    } else if (auto* const* real = std::get_if<double*>(&f.target)) {
      if (!value.is_number()) throw wrong_type("a number");
      check_number(f, value.get<double>(), shown(value));
      **real = value.get<double>();
    } else {
      // A text field also takes a bare number, so that "obs": 30 works as --obs 30 does.
      if (!value.is_string() && !value.is_number()) throw wrong_type("a string");
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      check_choice(f, text);
      *std::get<std::string*>(f.target) = text;
    }
  } catch (const UsageError& e) {
    const std::string what = e.what();
    if (what.rfind(where, 0) == 0) throw;
    throw UsageError(where + ": " + what);
  }
}

template <class Number>
Field number_field(std::string name, Number* target, std::string help, double least, double most) {
  SD_CHECK(least < most, "--" + name + " needs a range whose least value is below its greatest");
  Field field = text(std::move(name), nullptr, std::move(help));
  field.target = target, field.least = least, field.most = most;
  return field;
}

}  // namespace

Field text(std::string name, std::string* target, std::string help, std::vector<std::string> choices) {
  SD_CHECK(name.find(' ') == std::string::npos, "a field's name has no space: " + name);
  return {.name = std::move(name), .target = target, .help = std::move(help), .choices = std::move(choices)};
}

Field flag(std::string name, bool* target, std::string help) {
  Field field = text(std::move(name), nullptr, std::move(help));
  field.target = target;
  return field;
}

Field number(std::string name, std::int64_t* target, std::string help, double least, double most) {
  return number_field(std::move(name), target, std::move(help), least, most);
}

Field number(std::string name, double* target, std::string help, double least, double most) {
  return number_field(std::move(name), target, std::move(help), least, most);
}

Fields under(const std::string& group, Fields fields) {
  for (Field& field : fields) field.group = group;
  return fields;
}

Fields joined(std::initializer_list<Fields> lists) {
  Fields all;
  for (const Fields& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Fields over(Fields fields, Values& values) {
  for (Field& field : fields)
    std::visit([&](auto& value) { field.target = &value; },
               values.try_emplace(field.name, value_of(field)).first->second);
  return fields;
}

Value value_of(const Field& field) {
  return std::visit([](const auto* target) -> Value { return *target; }, field.target);
}

void set(const Field& field, const Value& value) {
  SD_CHECK(field.target.index() == value.index(), "--" + field.name + " must keep its type");
  std::visit([&](auto* target) { *target = std::get<std::remove_cvref_t<decltype(*target)>>(value); },
             field.target);
}

void set_from_values(const Fields& fields, const Values& values) {
  for (const Field& field : fields)
    if (const auto value = values.find(field.name); value != values.end()) set(field, value->second);
}

std::string value_text(const Field& field) {
  return std::visit(
      [](const auto* target) -> std::string {
        using T = std::remove_cvref_t<decltype(*target)>;
        if constexpr (std::is_same_v<T, bool>) {
          return *target ? "on" : "off";
        } else if constexpr (std::is_same_v<T, double>) {
          return fmt::format("{:g}", *target);
        } else {
          return fmt::format("{}", *target);
        }
      },
      field.target);
}

std::optional<bool> switch_value(std::string_view text) {
  for (const std::string_view word : {"on", "true", "yes", "1"})
    if (text == word) return true;
  for (const std::string_view word : {"off", "false", "no", "0"})
    if (text == word) return false;
  return std::nullopt;
}

void set_from_text(const Field& field, const std::string& text) {
  std::visit([&](auto* target) { TextSetter{field, text}(target); }, field.target);
}

void set_from_json(const Fields& fields, const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) throw UsageError(where + ": expected one JSON object with settings");
  for (const auto& [key, value] : object.items()) {
    const std::string name = with_underscores(key);
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const Field& f : fields) known.push_back(f.name);
      const std::string near = did_you_mean(near_names(name, known), "\"", "\"");
      throw UsageError(
          fmt::format("{}: unknown key {}{}", where, shown(key), near.empty() ? "; see --help" : near));
    }
    if (!value.is_null()) set_one_from_json(*field, value, where);
  }
}

std::vector<std::string> set_from_json_text(const Fields& fields, std::string_view text,
                                            const std::string& where,
                                            const std::vector<std::string>& passed_over,
                                            const Section& section) {
  nlohmann::json object, part = nlohmann::json::object();
  try {
    object = nlohmann::json::parse(text, only_settings(section.name), true, true);
  } catch (const nlohmann::json::parse_error& e) {
    throw UsageError(not_settings(where, core::json_fault(text, e.byte)));
  } catch (const nlohmann::json::exception& e) {  // a number too large for a double
    throw UsageError(not_settings(where, core::plain_json_error(e.what())));
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", where, e.what()));
  }
  std::vector<std::string> keys;
  if (object.is_object()) {
    if (!section.name.empty() && object.contains(section.name)) {
      part = object[section.name];
      object.erase(section.name);
    }
    for (const auto& [key, value] : object.items()) keys.push_back(with_underscores(key));
    for (const std::string& key : passed_over) object.erase(key);
  }
  set_from_json(fields, object, where);
  Values elsewhere;  // a section that does not apply is read all the same, for what is wrong in it
  set_from_json(section.applies ? fields : over(fields, elsewhere), part,
                fmt::format("{}, \"{}\"", where, section.name));
  for (const auto& [key, value] : part.items())
    if (section.applies) keys.push_back(with_underscores(key));
  return keys;
}

nlohmann::ordered_json to_json(const Fields& fields) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Field& f : fields) {
    std::visit([&](const auto* target) { out[f.name] = *target; }, f.target);
  }
  return out;
}

bool is_used(const Field& field, const std::string& user) {
  return field.used_by.empty() ||
         std::find(field.used_by.begin(), field.used_by.end(), user) != field.used_by.end();
}

std::vector<std::string> without_effect(const Fields& fields, const Fields& usual,
                                        const std::vector<std::string>& given, const std::string& flag,
                                        const std::string& user) {
  std::vector<std::string> messages;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (is_used(f, user) || value_of(f) == value_of(usual[i]) ||
        std::find(given.begin(), given.end(), f.name) == given.end())
      continue;
    messages.push_back(fmt::format("--{} {} does not apply to --{} {}, only to {}", f.name, value_text(f),
                                   flag, user, fmt::join(f.used_by, ", ")));
  }
  return messages;
}

void check(const Fields& fields) {
  for (const Field& f : fields) {
    if (const auto* const* whole = std::get_if<std::int64_t*>(&f.target)) {
      check_number(f, static_cast<long double>(**whole), value_text(f));
    } else if (const auto* const* real = std::get_if<double*>(&f.target)) {
      check_number(f, **real, value_text(f));
    } else if (const auto* const* text = std::get_if<std::string*>(&f.target)) {
      check_choice(f, **text);
    }
  }
}

}  // namespace snake_ddp::io
