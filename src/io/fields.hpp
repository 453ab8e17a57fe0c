// One list of fields per options struct: the flag parser, the JSON reader and writer, `--help` and the range
// checks all read the same list, so they cannot drift apart.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace snake_ddp::io {

/// One setting. `target` points into the options struct that the list was made for, which must outlive the
/// list.
struct Field {
  std::string name;  // as in the flag, with underscores, and in JSON
  std::variant<bool*, std::int64_t*, double*, std::string*> target;
  std::string help = {};
  double least = -std::numeric_limits<double>::infinity();  // numbers only, inclusive
  double most = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // texts only; empty: any
  std::string group = {};                 // heading in --help
  std::vector<std::string> used_by = {};  // learners (--algo) or stages that read it; empty: all
};
using Fields = std::vector<Field>;

/// The three kinds of fields. Swapping two arguments does not compile, or is a Bug when the list is made.
Field flag(std::string name, bool* target, std::string help);
Field text(std::string name, std::string* target, std::string help, std::vector<std::string> choices = {});
Field number(std::string name, std::int64_t* target, std::string help, double least, double most);
Field number(std::string name, double* target, std::string help, double least, double most);

/// Settings by name.
using Value = std::variant<bool, std::int64_t, double, std::string>;
using Values = std::map<std::string, Value>;

/// A heading of --help for all of `fields`.
Fields under(const std::string& group, Fields fields);

/// The lists one after the other.
Fields joined(std::initializer_list<Fields> lists);

/// Points the targets into `values`, which must outlive the list. Fields missing there are added with their current
/// values.
Fields over(Fields fields, Values& values);

Value value_of(const Field& field);
/// Throws  Bug for a value of another type.
void set(const Field& field, const Value& value);
/// Sets the fields that `values` names. Others keep their values.
void set_from_values(const Fields& fields, const Values& values);

/// The value as text, as `--help` and messages show it.
std::string value_text(const Field& field);

/// What the text of a switch says: on, true, yes or 1; off, false, no or 0.
std::optional<bool> switch_value(std::string_view text);

/// Reads `text` into the field's target.
/// Throws  UsageError that names the field, the text, and the allowed range or choices.
void set_from_text(const Field& field, const std::string& text);

/// Merges a JSON object into the targets; keys may use '-' or '_'. Null leaves a value unchanged.
/// Throws  UsageError for an unknown key (nearest known name shown), a wrong type, or a value out of range;
///         `where` (a file's name) starts the message.
void set_from_json(const Fields& fields, const nlohmann::json& object, const std::string& where);

/// A part of a file of settings, an object under this name: where it applies, its settings come over the others.
struct Section {
  std::string name = {};
  bool applies = false;
};

/// Merges the text of a JSON file (comments allowed). Keys in `passed_over` are no error and set nothing; `where` (the
/// file's name) starts the message.
/// Returns all keys, with underscores.
/// Throws  UsageError as set_from_json, and for text that is not JSON.
std::vector<std::string> set_from_json_text(const Fields& fields, std::string_view text,
                                            const std::string& where,
                                            const std::vector<std::string>& passed_over = {},
                                            const Section& section = {});

/// All values, in list order.
nlohmann::ordered_json to_json(const Fields& fields);

/// Throws  UsageError when a value is outside its range or choices.
void check(const Fields& fields);

/// Whether `user`, a learner or a stage, reads the field.
bool is_used(const Field& field, const std::string& user);

/// A message for each field that is named in `given`, is not read by the one whose name --`flag` has, and differs from its
/// usual value.
std::vector<std::string> without_effect(const Fields& fields, const Fields& usual,
                                        const std::vector<std::string>& given, const std::string& flag,
                                        const std::string& user);

/// The known name with the smallest edit distance to `name`; empty when none is near (more than a third
/// differs).
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// What a user may have meant by an unknown setting: the known names for what other programs call so (`lr`,
/// `total_timesteps`), otherwise the nearest name; empty when there is neither.
std::vector<std::string> near_names(const std::string& name, const std::vector<std::string>& known);

/// As "; did you mean --a or --b?", each name between `before` and `after`; empty without names.
std::string did_you_mean(const std::vector<std::string>& names, std::string_view before = "",
                         std::string_view after = "");

}  // namespace snake_ddp::io
