#include "weights.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "io/run_folder.hpp"
#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "train/actor_record.hpp"

namespace snake_ddp::train {
namespace {

// The run's own flags say what nothing else does.
void check_meaning(const io::SavedWeights& file, const std::string& path, const TrainOptions& o) {
  const ActorRecord record =
      actor_record(file, path, {}, {o.output_activation, o.obs, o.tokens, static_cast<int>(o.view_radius)});
  const auto refuse = [&](const char* flag, std::string_view there, std::string_view here) {
    throw core::FileError(
        fmt::format("{} was trained with --{} {}, this run has --{} {}", path, flag, there, flag, here));
  };
  if (record.obs != o.obs) refuse("obs", record.obs, o.obs);
  if (record.head != nets::Head::kIdentity && record.head != nets::head_from_name(o.output_activation))
    refuse("output_activation", o.output_activation == "tanh" ? "softmax" : "tanh", o.output_activation);
}

}  // namespace

std::optional<io::RunModel> weights_to_load(const TrainOptions& o) {
  if (!o.load_model_path.empty()) return io::model_at(o.load_model_path);
  if (!o.load_model) return std::nullopt;
  return io::find_run_model(o.runs_dir, o.game_name, o.load_model_run, o.load_model_run_episode);
}

std::vector<std::string> load_weights(const TrainOptions& o, const io::RunModel& files,
                                      learners::Learner& learner) {
  std::vector<std::string> remarks;
  const auto load = [&](const std::string& path, const io::SavedWeights& file,
                        const nets::NamedTensors& views) {
    nets::copy_state(file.weights, views, path);
    if (std::string remark = remark_on(file, path); !remark.empty()) remarks.push_back(std::move(remark));
  };
  const io::SavedWeights actor = io::load_weights(files.actor);
  check_meaning(actor, files.actor, o);
  load(files.actor, actor, learner.exported_actor());
  const nets::NamedTensors critic = learner.exported_critic();
  if (!files.critic.empty()) {
    load(files.critic, io::load_weights(files.critic), critic);
  } else if (std::all_of(critic.begin(), critic.end(), [&](const auto& one) {
               const at::Tensor* there = nets::find(actor.weights, one.first);
               return there != nullptr && there->sizes() == one.second.sizes();
             })) {
    nets::copy_state(actor.weights, critic, files.actor);
  } else {
    throw core::FileError(fmt::format("{}: --algo {} needs a critic, too: critic_N.pth beside an actor_N.pth",
                                      files.actor, o.algo));
  }
  try {
    learner.start_from_exported();
  } catch (const core::FileError& error) {
    throw core::FileError(fmt::format("{}: {}", files.actor, error.what()));
  }
  return remarks;
}

void share_weights(learners::Learner& learner, dist::DistContext& context) {
  if (context.size() == 1) return;
  for (auto& [name, tensor] : learner.state()) {
    at::Tensor whole = tensor.contiguous();
    context.broadcast(whole, 0, context.deadline());
    tensor.copy_(whole);
  }
  learner.state_changed();
}

std::string state_hash(learners::Learner& learner) {
  std::uint64_t hash = core::kHashStart;
  for (const auto& [name, tensor] : learner.state()) hash = nets::add_to_hash(hash, tensor);
  return fmt::format("{:016x}", hash);
}

std::string fingerprint_line(learners::Learner& learner, const rollout::Collector& collector,
                             const learners::Batch& batch, dist::DistContext& context) {
  std::uint64_t last_batch = core::kHashStart;
  for (const at::Tensor& column : batch.columns) last_batch = nets::add_to_hash(last_batch, column);
  const std::vector<std::string> all = context.gather(
      fmt::format("boards {:016x} batch {:016x}", collector.hash(), last_batch), context.deadline());
  std::string line = "Fingerprint: weights " + state_hash(learner);
  for (std::size_t rank = 0; rank < all.size(); ++rank) line += fmt::format("; rank {} {}", rank, all[rank]);
  return line + " (the same for the same training)";
}

}  // namespace snake_ddp::train
