#include "snake_ddp/app/team.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/config/fields.hpp"
#include "snake_ddp/io/atomic_file.hpp"
#include "snake_ddp/io/json_text.hpp"
#include "snake_ddp/io/state_dict.hpp"

namespace snake_ddp::app {

nets::Head head_of_run(const std::string& actor) {
  const auto config = std::filesystem::path(actor).parent_path().parent_path() / "config.json";
  if (!std::filesystem::exists(config)) return nets::Head::kSoftmax;
  try {
    const nlohmann::json settings = io::parse_json(io::read_file(config.string()));
    if (!settings.is_object()) throw base::FileError("not one JSON object");
    if (!settings.contains("output_activation")) return nets::Head::kSoftmax;
    if (!settings["output_activation"].is_string()) throw base::FileError("output_activation is no text");
    return nets::head_from_name(settings["output_activation"].get<std::string>());
  } catch (const base::Error& e) {
    throw base::FileError(
        fmt::format("{}, which says what the last layer of {} is: {}", config.string(), actor, e.what()));
  }
}

Team team_from_spec(const std::string& spec, bool mask_fatal) {
  Team team;
  team.player.scripted = agents::try_opponent(spec == "random" ? "level0" : spec);
  if (team.player.scripted) return team;

  constexpr std::string_view kArgmax = ":argmax";
  std::string path = spec;
  if (path.size() > kArgmax.size() && path.ends_with(kArgmax)) {
    path.resize(path.size() - kArgmax.size());
    team.player.argmax = true;
  }
  if (!std::filesystem::exists(path) && path.find('/') == std::string::npos && !path.ends_with(".pth")) {
    const std::string near = config::nearest_name(
        path, {"random", "level0", "level1", "level2", "level3", "level4", "evasion", "territory"});
    throw base::UsageError(fmt::format(
        "team \"{}\": neither a scripted team (random, level0 to level4, evasion, territory) nor a file{}",
        spec, near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  const io::NamedTensors weights = io::load_state_dict(path);
  std::int64_t features = 0;
  if (nets::is_q_net(weights)) {
    auto policy = std::make_unique<nets::ValuePolicy>(weights, path);
    features = policy->features();
    team.policy = std::move(policy);
  } else {
    auto policy = std::make_unique<nets::ActorPolicy>(weights, head_of_run(path), path);
    features = policy->features();
    team.policy = std::move(policy);
  }
  const auto kind = encode::try_obs_kind(features);
  if (!kind) {
    throw base::FileError(fmt::format(
        "{}: a network for {} features; this version sees 26, 30, the window's 277 or the view's {}", path,
        features, encode::obs_size(encode::ObsKind::kView)));
  }
  team.player.policy = team.policy.get();
  team.player.sight.kind = *kind;
  team.player.mask_fatal = mask_fatal || team.policy->answer() == nets::Policy::Answer::kValues;
  return team;
}

}  // namespace snake_ddp::app
