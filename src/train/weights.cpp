#include "weights.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/hash.hpp"
#include "snake_ddp/files/run_folder.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/nets/dense.hpp"
#include "snake_ddp/train/actor_record.hpp"

namespace snake_ddp::train {
FeatureMap::FeatureMap(const Plan& o) : scaled_(o.scale_features) {
  if (!scaled_) return;
  const play::Sight sight = o.sight;
  encode::Scaling s = sight.scaling;
  shift_ = at::from_blob(s.shift, {sight.features()}, at::kFloat).clone();
  scale_ = at::from_blob(s.scale, {sight.features()}, at::kFloat).clone();
}

nets::NamedTensors FeatureMap::to_file(const nets::NamedTensors& weights) const {
  nets::NamedTensors there;
  for (const auto& [name, tensor] : weights) there.emplace_back(name, tensor.to(at::kCPU));
  return scaled_ ? nets::fold_input_scale(there, shift_, scale_) : there;
}

nets::NamedTensors FeatureMap::from_file(const nets::NamedTensors& weights) const {
  return scaled_ ? nets::unfold_input_scale(weights, shift_, scale_) : weights;
}

void load_weights(const TrainOptions& o, const FeatureMap& map, learners::Learner& learner) {
  const files::RunModel files =
      files::find_run_model(o.runs_dir, o.game_name, o.load_model_run, o.load_model_run_episode);
  const auto load = [&](const std::string& path, const nets::NamedTensors& views) {
    const files::SavedWeights file = files::load_weights(path);
    const auto record = read_actor_record(file, path);  // a contradiction is an error
    if (record && record->obs != o.obs) {
      throw base::FileError(
          fmt::format("{} was trained with --obs {}, this run has --obs {}", path, record->obs, o.obs));
    }
    const files::NamedTensors& raw = file.weights;
    nets::copy_state(raw, views, path);  // checks names and shapes before anything is computed from them
    nets::copy_state(map.from_file(raw), views, path);
  };
  load(files.actor, learner.exported_actor());
  load(files.critic, learner.exported_critic());
  try {
    learner.start_from_exported();
  } catch (const base::FileError& error) {
    throw base::FileError(fmt::format("{}: {}", files.actor, error.what()));
  }
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
  std::uint64_t hash = base::kHashStart;
  for (const auto& [name, tensor] : learner.state()) hash = nets::add_to_hash(hash, tensor);
  return fmt::format("{:016x}", hash);
}

std::string fingerprint_line(learners::Learner& learner, const rollout::Collector& collector,
                             const replay::Batch& batch, dist::DistContext& context) {
  std::uint64_t last_batch = base::kHashStart;
  for (const at::Tensor& column : batch.columns) last_batch = nets::add_to_hash(last_batch, column);
  const std::vector<std::string> all = context.gather(
      fmt::format("boards {:016x} batch {:016x}", collector.hash(), last_batch), context.deadline());
  std::string line = "Fingerprint: weights " + state_hash(learner);
  for (std::size_t rank = 0; rank < all.size(); ++rank) line += fmt::format("; rank {} {}", rank, all[rank]);
  return line;
}

}  // namespace snake_ddp::train
