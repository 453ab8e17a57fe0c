#include "snake_ddp/app/team.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "snake_ddp/agents/weights.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/config/fields.hpp"
#include "snake_ddp/encode/mirror.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/learners/with_tokens.hpp"
#include "snake_ddp/records/atomic_file.hpp"
#include "snake_ddp/records/folders.hpp"
#include "snake_ddp/records/json_text.hpp"
#include "snake_ddp/search/mover.hpp"
#include "snake_ddp/train/actor_record.hpp"
#include "snake_ddp/train/tokens.hpp"

namespace snake_ddp::app {

namespace {

constexpr const char* kRandom = "random";  // the platform's name for level0

// config.json of the run that an actor's file belongs to; empty without one.
struct RunSettings {
  std::string file;
  nlohmann::json values = nlohmann::json::object();

  template <class T>
  [[nodiscard]] T get(const char* name, T otherwise) const {
    try {
      return values.value(name, otherwise);
    } catch (const nlohmann::json::exception&) {
      throw base::FileError(fmt::format("{}: {} is not a {}", file, name,
                                        std::is_same_v<T, std::string> ? "string" : "number"));
    }
  }
};

RunSettings settings_beside(const std::string& actor) {
  // Absolute: of "actor_7.pth" alone there is no parent to go up to.
  const std::filesystem::path file = records::absolute_path(actor);
  RunSettings run{(file.parent_path().parent_path() / "config.json").string()};
  if (!records::is_there(run.file)) return run;
  try {
    run.values = records::parse_json(records::read_file(run.file));
  } catch (const base::Error& e) {
    throw base::FileError(
        fmt::format("{}, which describes the training of {}: {}", run.file, actor, e.what()));
  }
  if (!run.values.is_object())
    throw base::FileError(
        fmt::format("{}, which describes the training of {}: not one JSON object", run.file, actor));
  return run;
}

// Throws UsageError if the team's network is of a kind that cannot search.
void check_search(const files::NamedTensors& weights, const train::ActorRecord& record, const Team& team,
                  const std::string& spec) {
  const auto refuse = [&](const std::string& why) {
    throw base::UsageError(fmt::format("team \"{}\": {}", spec, why));
  };
  if (!nets::is_q_net(weights)) {
    refuse(
        "search needs a Q-network, which values moves; this file holds an actor, which has only "
        "probabilities of moves");
  }
  if (team.policy->memory() > 0)
    refuse("search needs a network without memory: a recurrent one would lack the memory of imagined steps");
  if (team.player.sight.tokens)
    refuse("search is for networks that see features only; this one was trained with --tokens");
  if (record.reward != "score") {
    refuse(fmt::format(
        "search adds points to the network's values, but this one was trained with --reward {}; train "
        "with --reward score",
        record.reward));
  }
}

// For a Q-network that was trained with --tokens.
void add_tokens(Team& team, const train::ActorRecord& record, std::int64_t features,
                const std::string& path) {
  learners::TokenSource source = train::token_source(record.tokens, record.sight.view_radius, at::kCPU);
  const std::int64_t plain = encode::obs_size(record.sight.kind);
  if (plain + source.reader.features() != features) {
    throw base::FileError(
        fmt::format("{}: a network for {} features, but --obs {} with the tokens of {} has {}", path,
                    features, record.obs, record.tokens, plain + source.reader.features()));
  }
  team.policy = learners::make_policy_with_tokens(std::move(team.policy), std::move(source), plain);
}

constexpr std::string_view kArgmax = "argmax", kBestResponse = "lbr";

// A look that knows its foes tries all of its team's moves: "lbr4".
std::optional<search::Spec> try_best_response(std::string_view mode) {
  if (!mode.starts_with(kBestResponse)) return {};
  auto how = search::try_spec(fmt::format("look{}", mode.substr(kBestResponse.size())));
  if (how) how->deviations = search::Deviations::kAll;
  return how;
}

// "territory:9,2,1,40,42,45,8,40,25".
std::optional<agents::territory::Weights> weights_of(const std::string& spec) {
  const std::string script = fmt::format("{}:", agents::name(agents::Opponent::kTerritory));
  if (!spec.starts_with(script)) return {};
  const auto weights = agents::try_weights(std::string_view(spec).substr(script.size()));
  if (!weights) {
    throw base::UsageError(
        fmt::format("team \"{}\": after {} there may be its weights, {} whole numbers; its own are {}", spec,
                    script, agents::WeightList().size(), agents::to_string(agents::territory::Weights())));
  }
  return weights;
}

// PATH and the text after its last colon. A file may have colons in its name.
std::pair<std::string, std::string> split_spec(const std::string& spec) {
  const std::size_t colon = spec.rfind(':');
  if (colon == std::string::npos || spec.find('/', colon) != std::string::npos || records::is_there(spec))
    return {spec, ""};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

nets::Head head_of_run(const std::string& actor) {
  const RunSettings run = settings_beside(actor);
  try {
    return nets::head_from_name(run.get<std::string>("output_activation", "softmax"));
  } catch (const base::UsageError& e) {
    throw base::FileError(fmt::format("{}, which names the last layer of {}: {}", run.file, actor, e.what()));
  }
}

// The record for a file without one: from its shapes and its run's config.json.
train::ActorRecord guessed(const files::NamedTensors& weights, const std::string& path) {
  train::ActorRecord record{
      {}, {}, {}, {}, nets::is_q_net(weights) ? nets::Head::kIdentity : head_of_run(path)};
  const std::int64_t features = nets::features_of(weights, path);
  auto kind = encode::try_obs_kind(features);
  if (kind == encode::ObsKind::kView) {
    const auto obs = settings_beside(path).get<std::string>("obs", "");
    if (encode::try_obs_kind(obs) == encode::ObsKind::kAhead) kind = encode::ObsKind::kAhead;
  }
  if (!kind) {
    const RunSettings run = settings_beside(path);
    record.obs = run.get<std::string>("obs", "");
    record.tokens = run.get<std::string>("tokens", "");
    record.sight.view_radius = run.get<int>("view_radius", 0);
    record.sight.tokens = true;
    kind = encode::try_obs_kind(record.obs);
    if (record.tokens.empty() || !kind) {
      throw base::FileError(fmt::format(
          "{}: a network for {} features; this version has 26, 30, 277 (window) and {} (view, ahead); one "
          "trained with --tokens needs its run's config.json, {}",
          path, features, encode::obs_size(encode::ObsKind::kView), run.file));
    }
  }
  record.sight.kind = *kind;
  return record;
}

// The rewards that the network was trained for, from its run's config.json; without one, those of
// configs/champion.json.
void add_training(train::ActorRecord& record, const RunSettings& run) {
  record.reward = run.get<std::string>("reward", "score");
  search::Training& t = record.training;
  t.rival_reward = run.get<double>("rival_reward", t.rival_reward);
  t.reward_scale = run.get<double>("reward_scale", t.reward_scale);
  t.gamma = run.get<double>("gamma", t.gamma);
}

}  // namespace

std::string file_of_spec(const std::string& spec) { return split_spec(spec).first; }

Team team_from_spec(const std::string& spec, bool mask_fatal) {
  Team team;
  team.player.scripted =
      agents::try_opponent(spec == kRandom ? agents::name(agents::Opponent::kLevel0) : spec);
  if (const auto weights = weights_of(spec)) {
    team.player.scripted = agents::Opponent::kTerritory;
    team.player.weights = *weights;
  }
  if (team.player.scripted) return team;

  const auto [path, mode] = split_spec(spec);
  team.player.argmax = mode == kArgmax;
  const std::optional<search::Spec> best_response = try_best_response(mode);
  team.player.knows_foe = best_response.has_value();
  const std::optional<search::Spec> how = best_response ? best_response : search::try_spec(mode);
  if (!mode.empty() && !how && mode != kArgmax) {
    throw base::UsageError(
        fmt::format("team \"{}\": \"{}\" is not a way to play; after a file's name there may be "
                    ":argmax, or a search: {}; or lbr<samples>, a look that knows what its foes would do",
                    spec, mode, search::kSpecForms));
  }
  if (!records::is_there(path) && path.find('/') == std::string::npos && !path.ends_with(".pth")) {
    std::vector<std::string> names = agents::opponent_names();
    names.insert(names.begin(), kRandom);
    if (how && std::find(names.begin(), names.end(), path) != names.end()) {
      throw base::UsageError(
          fmt::format("team \"{}\": search needs a Q-network's file; {} is a script", spec, path));
    }
    const std::string near = config::nearest_name(path, names);
    throw base::UsageError(fmt::format("team \"{}\": neither a scripted team ({}) nor a file{}", spec,
                                       fmt::join(names, ", "),
                                       near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  const files::SavedWeights file = files::load_weights(path);
  const std::optional<train::ActorRecord> written = train::read_actor_record(file, path);
  train::ActorRecord record = written ? *written : guessed(file.weights, path);
  team.head = record.head;
  team.policy = nets::make_policy(file.weights, record.head, path, encode::mirror_of(record.sight.kind));
  team.player.sight = record.sight;
  if (record.sight.tokens) add_tokens(team, record, nets::features_of(file.weights, path), path);
  team.player.policy = team.policy.get();
  if (how) {
    if (!written) add_training(record, settings_beside(path));
    check_search(file.weights, record, team, spec);
    team.player = rollout::with_search(team.player, how, record.training, file.weights, path);
  }
  team.player.mask_fatal = mask_fatal || team.policy->answer() == nets::Policy::Answer::kValues;
  return team;
}

}  // namespace snake_ddp::app
