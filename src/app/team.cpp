#include "snake_ddp/app/team.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/config/fields.hpp"
#include "snake_ddp/io/state_dict.hpp"

namespace snake_ddp::app {

nets::Head head_of_run(const std::string& actor) {
  std::ifstream file(std::filesystem::path(actor).parent_path().parent_path() / "config.json");
  if (!file) return nets::Head::kSoftmax;
  const nlohmann::json settings = nlohmann::json::parse(file, nullptr, false);
  if (settings.is_discarded() || !settings.is_object()) return nets::Head::kSoftmax;
  return nets::head_from_name(settings.value("output_activation", "softmax"));
}

Team team_from_spec(const std::string& spec) {
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
    const std::string near =
        config::nearest_name(path, {"random", "level0", "level1", "level2", "level3", "level4", "evasion"});
    throw base::UsageError(
        fmt::format("team \"{}\": neither a scripted team (random, level0 to level4, evasion) nor a file{}",
                    spec, near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  team.actor = std::make_unique<nets::ActorPolicy>(io::load_state_dict(path), head_of_run(path), path);
  const std::int64_t features = team.actor->features();
  if (features != 26 && features != 30) {
    throw base::FileError(
        fmt::format("{}: an actor for {} features; this version sees 26 or 30", path, features));
  }
  team.player.policy = team.actor.get();
  team.player.sight.kind = features == 26 ? encode::ObsKind::k26 : encode::ObsKind::k30;
  return team;
}

}  // namespace snake_ddp::app
