#include "train/file_teams.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <bit>

#include "io/state_dict.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "train/actor_record.hpp"

namespace snake_ddp::train {
namespace {

// What the mix says about a file: "softmax".
Said said_in_mix(const game::Share& share) {
  Said said;
  for (const std::string& word : share.words) SD_CHECK(take_word(said, word), word);
  return said;
}

void check_fits(const io::SavedWeights& file, const ActorRecord& record, const nets::Policy& policy,
                const std::string& path, const Plan& o) {
  const bool q_net = nets::is_q_net(file.weights);
  struct Rule {
    bool broken;
    std::string message;
  };
  const Rule rules[] = {
      {record.obs_spec.tokens || o.obs_spec.tokens, "neither it nor the run may have --tokens"},
      {record.obs_spec.kind != o.obs_spec.kind || record.obs_spec.view_radius != o.obs_spec.view_radius,
       fmt::format(
           "it was trained with --obs {} and --view_radius {}, this run has --obs {} and --view_radius {}",
           game::name(record.obs_spec.kind), record.obs_spec.view_radius, o.obs, o.view_radius)},
      {policy.memory() > 0, "it is a network with memory; only those without can be opponents"},
      {q_net && !o.mask_fatal, "a Q-network never makes a fatal move: set --mask_fatal"},
  };
  for (const Rule& rule : rules)
    if (rule.broken) throw core::UsageError(fmt::format("--opponent_mix file:{}: {}", path, rule.message));
}

}  // namespace

FileTeams::FileTeams(const Plan& o, at::Device device) {
  for (const game::Share& share : o.mix) {
    if (share.file.empty()) continue;
    const io::SavedWeights file = io::load_weights(share.file);
    const ActorRecord record = actor_record(file, share.file, said_in_mix(share), {}, "--opponent_mix file:");
    if (std::string remark = remark_on(file, share.file); !remark.empty())
      remarks_.push_back(std::move(remark));
    Team& team = teams_.emplace_back();
    team.rival = share.rival;
    team.path = share.file;
    team.policy = nets::make_policy(file.weights, record.head, share.file,
                                    game::mirror_of(record.obs_spec.kind), device);
    check_fits(file, record, *team.policy, share.file, o);
    team.hash = core::kHashStart;
    for (const auto& [name, tensor] : file.weights) team.hash = nets::add_to_hash(team.hash, tensor);
    team.weights = file.weights;
  }
}

nets::Policy* FileTeams::frozen(int place) const {
  const int number = place - game::Rival::kFirstFile;
  if (number < 0 || number >= static_cast<int>(teams_.size())) return nullptr;
  return teams_[static_cast<std::size_t>(number)].policy.get();
}

nets::NamedTensors FileTeams::state() const {
  nets::NamedTensors state;
  for (const Team& team : teams_)
    state.emplace_back(team.path, at::scalar_tensor(std::bit_cast<std::int64_t>(team.hash), at::kLong));
  return state;
}

std::string FileTeams::text() const {
  std::string text;
  for (const Team& team : teams_) text += fmt::format("{} {:016x} ", team.path, team.hash);
  return text;
}

void FileTeams::check(const nets::NamedTensors& state) const {
  const nets::StateReader then(state, "the checkpoint");
  for (const auto& [path, hash] : this->state()) {
    if (nets::find(state, path) != nullptr && then.number<std::int64_t>(path) != hash.item<std::int64_t>())
      throw core::FileError(
          fmt::format("--opponent_mix file:{}: its weights are not those that the run began with; put the "
                      "file back, or name the new one by another path",
                      path));
  }
}

}  // namespace snake_ddp::train
