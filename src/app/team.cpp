#include "app/team.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "io/fields.hpp"
#include "io/folders.hpp"
#include "io/state_dict.hpp"
#include "learners/with_tokens.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "snake_ddp/play/mover.hpp"
#include "train/actor_record.hpp"
#include "train/plan.hpp"

namespace snake_ddp::app {

namespace {

constexpr const char* kRandom = "random";  // the platform's name for level0

// Throws UsageError if the team's network is of a kind that cannot search.
void check_search(const io::NamedTensors& weights, const train::ActorRecord& record, const Team& team,
                  const std::string& spec) {
  const auto refuse = [&](const std::string& why) {
    throw core::UsageError(fmt::format("team \"{}\": {}", spec, why));
  };
  if (!nets::is_q_net(weights)) {
    refuse(
        "search needs a Q-network, which values moves; this file holds an actor, which has only "
        "probabilities of moves");
  }
  if (team.policy->memory() > 0)
    refuse("search needs a network without memory: a recurrent one would lack the memory of imagined steps");
  if (team.player.obs_spec.tokens)
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
  learners::TokenSource source = train::token_source(record.tokens, record.obs_spec.view_radius, at::kCPU);
  const std::int64_t plain = game::obs_size(record.obs_spec.kind);
  if (plain + source.reader.features() != features) {
    throw core::FileError(fmt::format("{}: a network for {}, but --obs {} with the tokens of {} has {}", path,
                                      core::counted(features, "feature"), record.obs, record.tokens,
                                      plain + source.reader.features()));
  }
  team.policy = learners::make_policy_with_tokens(std::move(team.policy), std::move(source), plain);
}

constexpr std::string_view kArgmax = "argmax";

// PATH and the words after it: what its weights mean, and how to play with it.
struct FileSpec {
  std::string path, meaning = {}, mode = {};  // `meaning` is as typed, such as ":softmax"
  train::Said said = {};
};

// A file may have colons in its name.
FileSpec split_spec(const std::string& spec) {
  FileSpec file{spec};
  for (;;) {
    const std::size_t colon = file.path.rfind(':');
    if (colon == std::string::npos || file.path.find('/', colon) != std::string::npos ||
        io::is_there(file.path))
      return file;
    const std::string word = file.path.substr(colon + 1);
    if (train::take_word(file.said, word)) {
      file.meaning.insert(0, ":" + word);
    } else if (file.mode.empty() && file.meaning.empty()) {
      file.mode = word;
    } else {
      return file;
    }
    file.path.resize(colon);
  }
}

std::string identity_of(const std::string& path, const train::ActorRecord& record, const Team& team,
                        const std::optional<play::SearchSpec>& how) {
  std::error_code none;
  const play::SearchSpec s = how.value_or(play::SearchSpec{.kind = play::SearchSpec::Kind::kNone});
  // Values are no probabilities to draw from: their largest is played anyway.
  const bool is_argmax = team.player.argmax || team.policy->answer() == nets::Policy::Answer::kValues;
  return fmt::format("{} {} {} {} {} {} {} {}", std::filesystem::weakly_canonical(path, none).string(),
                     record.obs, static_cast<int>(record.head), is_argmax, static_cast<int>(s.kind), s.count,
                     s.limit_ms, s.tree.leaves);
}

}  // namespace

std::string file_of_spec(const std::string& spec) { return split_spec(spec).path; }

std::string weights_of_spec(const std::string& spec) {
  const FileSpec file = split_spec(spec);
  return file.path + file.meaning;
}

Team team_from_spec(const std::string& spec, bool mask_fatal, const std::string& head) {
  Team team;
  team.player.scripted = game::try_opponent(spec == kRandom ? game::name(game::Opponent::kLevel0) : spec);
  if (team.player.scripted) {
    team.identity = game::name(*team.player.scripted);
    return team;
  }

  auto [path, meaning, mode, said] = split_spec(spec);
  if (!head.empty()) said.head = head;
  team.player.argmax = mode == kArgmax;
  const std::optional<play::SearchSpec> how = play::try_spec(mode);
  if (!mode.empty() && !how && mode != kArgmax) {
    throw core::UsageError(
        fmt::format("team \"{}\": unknown search \"{}\". After a file's name there may be :argmax, or a "
                    "search: {}. Before "
                    "it, for a file without a record: softmax, tanh, view or ahead",
                    spec, mode, play::kSpecForms));
  }
  if (!io::is_there(path) && path.find('/') == std::string::npos && !path.ends_with(".pth")) {
    std::vector<std::string> names = game::opponent_names();
    names.insert(names.begin(), kRandom);
    if (how && std::find(names.begin(), names.end(), path) != names.end()) {
      throw core::UsageError(
          fmt::format("team \"{}\": search needs a Q-network's file; {} is a script", spec, path));
    }
    const std::string near = io::nearest_name(path, names);
    throw core::UsageError(fmt::format("team \"{}\": neither a scripted team ({}) nor a file{}", spec,
                                       fmt::join(names, ", "),
                                       near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  const io::SavedWeights file = io::load_weights(path);
  const train::ActorRecord record = train::actor_record(file, path, said);
  team.remark = train::remark_on(file, path);
  team.head = record.head;
  team.policy = nets::make_policy(file.weights, record.head, path, game::mirror_of(record.obs_spec.kind));
  team.player.obs_spec = record.obs_spec;
  if (record.obs_spec.tokens) add_tokens(team, record, nets::features_of(file.weights, path), path);
  team.player.policy = team.policy.get();
  if (how) {
    check_search(file.weights, record, team, spec);
    team.player = rollout::with_search(team.player, how, record.training, file.weights, path);
  }
  team.identity = identity_of(path, record, team, how);
  team.player.mask_fatal = mask_fatal || team.policy->answer() == nets::Policy::Answer::kValues;
  return team;
}

void tell_remark(const Team& team) {
  if (!team.remark.empty()) core::tell_error(team.remark);
}

}  // namespace snake_ddp::app
