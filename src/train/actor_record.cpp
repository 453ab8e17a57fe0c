#include "train/actor_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "dist/build.hpp"
#include "io/atomic_file.hpp"
#include "io/fields.hpp"
#include "io/folders.hpp"
#include "io/json_fields.hpp"
#include "io/json_text.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/printable.hpp"
#include "snake_ddp/core/text.hpp"
#include "train/options.hpp"

namespace snake_ddp::train {
namespace {

constexpr int kFormat = 1;
constexpr const char* kValues = "values";  // the output of a Q-network, which has no activation
constexpr const char* kHead = "output_activation";

// Keys of a record that are flags, all of which it has. Others are `format`, `version`, `learner` and `head`.
constexpr const char* kKeys[] = {"obs",    "view_radius",  "tokens",       "hidden_size", "mask_fatal",
                                 "reward", "rival_reward", "reward_scale", "gamma"};
// Keys of a run's settings that are read for weights without a record.
constexpr const char* kSettings[] = {kHead,    "obs",          "view_radius",  "tokens",
                                     "reward", "rival_reward", "reward_scale", "gamma"};

// What is known about weights besides their shapes: flags by name, checked as flags are.
struct Known {
  std::string where;  // begins messages; empty: nothing is known
  nlohmann::json given = nlohmann::json::object();
  TrainOptions options = {};  // `given`, and defaults

  [[nodiscard]] bool has(const char* name) const { return given.contains(name); }
  // `names`: what the file calls flags that it names otherwise.
  void check(std::initializer_list<std::pair<std::string, std::string>> names = {}) {
    for (const auto& [name, value] : given.items())
      if (value.is_null()) throw core::FileError(fmt::format("{}: \"{}\" is null", where, name));
    try {
      io::set_from_json(fields(options), given, where);
    } catch (const core::UsageError& e) {
      std::string what = std::string(e.what()).substr(where.size());  // ": --gamma 5: ..."
      if (what.starts_with(": --")) what.erase(2, 2);
      for (const auto& [flag, name] : names)
        if (const std::size_t at = what.find(flag); at == 2 || at == 3) what.replace(at, flag.size(), name);
      throw core::FileError(where + what);
    }
  }
};

[[noreturn]] void contradiction(const std::string& where, const std::string& record,
                                const std::string& weights) {
  throw core::FileError(
      fmt::format("{}: it says {}, but the weights are {}; the record is of another file, or of a version "
                  "that sees something else",
                  where, record, weights));
}

Known from_record(const io::SavedWeights& file, const std::string& path) {
  Known known{fmt::format("{}: its record {}", path, io::kRecordName)};
  const auto refuse = [&](const std::string& what) -> core::FileError {
    return core::FileError(fmt::format("{}: {}", known.where, what));
  };
  nlohmann::json json;
  try {
    json = io::parse_json(file.record);
  } catch (const core::FileError& e) {
    throw refuse(core::as_plain(e.what()));
  }
  if (!json.is_object()) throw refuse("not one JSON object");
  const auto value = [&](const char* key) -> const nlohmann::json& {
    if (!json.contains(key)) throw refuse(fmt::format("\"{}\" is missing", key));
    return json.at(key);
  };
  const nlohmann::json& format = value("format");
  if (!format.is_number_integer() || format < 1)
    throw refuse(fmt::format("\"format\": {} is not a whole number above 0", io::shown(format)));
  if (format > kFormat)
    throw refuse(
        fmt::format("format {} is of a later version; this one reads {}", io::shown(format), kFormat));
  for (const char* key : kKeys) known.given[key] = value(key);
  if (value("learner") != "") known.given["algo"] = value("learner");
  const bool q_net = nets::is_q_net(file.weights);
  if (value("head") != kValues) known.given[kHead] = value("head");
  known.check({{kHead, "head"}, {"algo", "learner"}});
  if (known.has(kHead) == q_net)
    contradiction(known.where, fmt::format("head \"{}\"", q_net ? known.options.output_activation : kValues),
                  q_net ? "a Q-network's" : "an actor's");
  return known;
}

// The Python trainer's config.yaml: "name: value" in each line, or all of them in braces.
nlohmann::json from_yaml(std::string text) {
  if (text.starts_with('{')) {
    text = text.substr(1, text.rfind('}') - 1);
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), ',', '\n');
  }
  nlohmann::json values = nlohmann::json::object();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const auto trimmed = [](std::string part) {
      const auto is_rim = [](char c) { return std::strchr(" \t\r'\"", c) != nullptr && c != 0; };
      while (!part.empty() && is_rim(part.back())) part.pop_back();
      part.erase(part.begin(), std::find_if_not(part.begin(), part.end(), is_rim));
      return part;
    };
    std::string value = line.substr(colon + 2);
    value = trimmed(value.substr(0, value.find(" #")));
    const auto number = core::try_number<double>(value);
    const auto whole = core::try_number<std::int64_t>(value);
    values[trimmed(line.substr(0, colon))] = whole    ? nlohmann::json(*whole)
                                             : number ? nlohmann::json(*number)
                                                      : nlohmann::json(value);
  }
  return values;
}

Known from_settings(const std::string& path) {
  // Absolute: of "actor_7.pth" alone there is no parent to go up to.
  const std::filesystem::path folder = std::filesystem::path(io::absolute_path(path)).parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path()}) {
    for (const char* name : {"config.json", "config.yaml", "config.yml"}) {
      const std::string file = (place / name).string();
      if (!io::is_there(file)) continue;
      Known known{fmt::format("{}, which describes the training of {}", file, path)};
      nlohmann::json settings;
      try {
        const std::string text = io::read_file(file);
        settings = file.ends_with(".json") ? io::parse_json(text) : from_yaml(text);
      } catch (const core::Error& e) {
        throw core::FileError(fmt::format("{}: {}", known.where, core::as_plain(e.what())));
      }
      if (!settings.is_object()) throw core::FileError(known.where + ": not one JSON object");
      for (const char* key : kSettings)
        if (settings.contains(key) && !settings[key].is_null()) known.given[key] = settings[key];
      if (known.given.empty()) continue;  // somebody else's
      known.check();
      return known;
    }
  }
  return {};
}

std::string what_to_type(std::string_view before, const std::string& path, std::string_view one,
                         std::string_view other) {
  return fmt::format(
      "the file has no record, and no config.json or config.yaml of its run is in its folder or the one "
      "above; "
      "type {0}{1}:{2} or {0}{1}:{3}",
      before, path, one, other);
}

std::string first_said(std::initializer_list<std::string> all) {
  for (const std::string& text : all)
    if (!text.empty()) return text;
  return {};
}

// Which observation the network reads, by its number of features.
void set_sight(ActorRecord& record, std::int64_t features, const std::string& path, std::string_view before) {
  const auto named = game::try_obs_kind(record.obs);
  if (!record.tokens.empty() && named && game::obs_size(*named) < features) {
    record.obs_spec.kind = *named;
    record.obs_spec.tokens = true;
    return;
  }
  const auto by_size = game::try_obs_kind(features);
  if (!by_size) {
    throw core::FileError(
        fmt::format("{}: a network for {}; this version has 26, 30, 277 (window) and {} (view, ahead); one "
                    "trained with --tokens needs its record or its run's config.json",
                    path, core::counted(features, "feature"), game::obs_size(game::ObsKind::kView)));
  }
  record.obs_spec.kind = *by_size;
  if (named && game::obs_size(*named) == features) {
    record.obs_spec.kind = *named;
  } else if (*by_size == game::ObsKind::kView) {
    throw core::UsageError(
        fmt::format("{}: nothing says whether this network of {} sees obs view or ahead: {}", path,
                    core::counted(features, "feature"), what_to_type(before, path, "view", "ahead")));
  }
  record.obs = game::name(record.obs_spec.kind);
  record.tokens.clear();
}

}  // namespace

bool take_word(Said& said, std::string_view word) {
  const bool head = word == "softmax" || word == "tanh", obs = word == "view" || word == "ahead";
  if (head) said.head = word;
  if (obs) said.obs = word;
  return head || obs;
}

std::string remark_on(const io::SavedWeights& file, const std::string& path) {
  if (file.owner.empty()) return {};
  return fmt::format("{}: all names begin with '{}', which is left out", path, core::as_plain(file.owner));
}

ActorRecord actor_record(const io::SavedWeights& file, const std::string& path, const Said& said,
                         const Said& otherwise, std::string_view before) {
  const bool recorded = !file.record.empty(), q_net = nets::is_q_net(file.weights);
  const std::int64_t features = nets::features_of(file.weights, path);
  const Known known = recorded ? from_record(file, path) : from_settings(path);
  const TrainOptions& o = known.options;
  ActorRecord record{known.has("algo") ? o.algo : "",
                     first_said({said.obs, known.has("obs") ? o.obs : "", otherwise.obs}),
                     known.has("tokens") ? o.tokens : otherwise.tokens,
                     {},
                     nets::Head::kIdentity};
  if (const auto seen = game::try_obs_kind(said.obs); seen && game::obs_size(*seen) != features)
    throw core::UsageError(fmt::format("{}: {} has {}; this is a network for {}", path, said.obs,
                                       core::counted(game::obs_size(*seen), "feature"), features));
  if (q_net && !said.head.empty())
    throw core::UsageError(
        fmt::format("{}: {} is an actor's last layer; this file holds a Q-network", path, said.head));
  if (recorded) {
    const std::int64_t plain = game::obs_size(*game::try_obs_kind(record.obs));
    if (record.tokens.empty() ? features != plain : features <= plain)
      contradiction(
          known.where,
          fmt::format("observation \"{}\"{}", record.obs, record.tokens.empty() ? "" : " with tokens"),
          "for " + core::counted(features, "feature"));
    if (const std::int64_t hidden = nets::hidden_of(file.weights, path); hidden != o.hidden_size)
      contradiction(known.where, fmt::format("hidden_size {}", o.hidden_size),
                    fmt::format("{} wide", hidden));
  }
  set_sight(record, features, path, before);
  if (!q_net) {
    const std::string head =
        first_said({said.head, known.has(kHead) ? o.output_activation : "", otherwise.head});
    if (head.empty()) {
      nets::make_policy(file.weights, nets::Head::kSoftmax, path);  // throws if it is none of our networks
      throw core::UsageError(fmt::format("{}: nothing says what this actor's last layer is: {}", path,
                                         what_to_type(before, path, "softmax", "tanh")));
    }
    record.head = nets::head_from_name(head);
  }
  const bool window = record.obs_spec.kind == game::ObsKind::kWindow;
  const auto radius = static_cast<int>(known.has("view_radius") ? o.view_radius : otherwise.view_radius);
  if (radius != 0 && (window ? radius < game::kLeastRadius : recorded))
    throw core::FileError(
        fmt::format("{}: view_radius {} with observation \"{}\"", known.where, radius, record.obs));
  if (window) record.obs_spec.view_radius = radius;
  if (known.has("reward")) record.reward = o.reward;
  play::Training& t = record.training;
  if (known.has("rival_reward")) t.rival_reward = o.rival_reward;
  if (known.has("reward_scale")) t.reward_scale = o.reward_scale;
  if (known.has("gamma")) t.gamma = o.gamma;
  return record;
}

std::string actor_record_text(const Plan& plan, const io::NamedTensors& actor) {
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"version", dist::version_text()},
                                       {"learner", plan.algo},
                                       {"obs", plan.obs},
                                       {"view_radius", plan.view_radius},
                                       {"tokens", plan.tokens},
                                       {"head", nets::is_q_net(actor) ? kValues : plan.output_activation},
                                       {"hidden_size", nets::hidden_of(actor, "the actor")},
                                       {"mask_fatal", plan.mask_fatal},
                                       {"reward", plan.reward},
                                       {"rival_reward", plan.rival_reward},
                                       {"reward_scale", plan.reward_scale},
                                       {"gamma", plan.gamma}};
  return json.dump();
}

}  // namespace snake_ddp::train
