// The parts of runs that tests cannot see from outside: `train_probe MODE ...`, tensors in and out as .pth files.
//   union ALGO HEAD DEVICE OUT   updates on this rank's share of a global batch; rank 0 writes the learner's state
//   act HEAD ACTOR OBS OUT    the outputs of an actor's file for raw features [B, 3, D]
//   run DEED STEP PATIENCE_MS --flag value ...   trains, and does one of these after that many steps of one board: "stop"
//       sends itself SIGTERM, "stall" makes no progress any more, "slow" sleeps a quarter of a second after each step until then
//   judge                     two blocks of games, the second rank's slower by more than its watchdog's limit
//   learner SEED HIDDEN OBS OUT   the outputs of a fresh learner's policy for the same features scaled, as in training
//   perturb RANK UPDATES NAME VALUE ...   trains with these settings; on one rank a weight changes by itself after so many
//                             updates; "spoil" likewise: it is no number any more
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "dist/context.hpp"
#include "dist/watchdog.hpp"
#include "io/fields.hpp"
#include "io/state_dict.hpp"
#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/policy.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "spied_learner.hpp"
#include "train/judge.hpp"
#include "train/loop.hpp"
#include "train/options.hpp"

namespace snake_ddp {

std::unique_ptr<learners::Learner> wrapped_make_learner(const learners::LearnerOptions& options) {
  return decorated(options);
}

}  // namespace snake_ddp

namespace {

using namespace snake_ddp;

constexpr int kUpdates = 8;
constexpr std::int64_t kGlobalBatch = 24;

at::Tensor with_constant(const at::Tensor& features) {
  std::vector<std::int64_t> sizes = features.sizes().vec();
  sizes.back() = 1;
  return at::cat({features, at::ones(sizes)}, -1).contiguous();
}

at::Tensor observations_of(const std::string& path) {
  for (const auto& [name, tensor] : io::load_state_dict(path)) {
    if (name == "obs") return tensor;
  }
  throw core::FileError(path + " has no obs");
}

// The global batch of an update, and of it the rows of one of `parts` ranks.
learners::Batch share(const learners::Learner& learner, int update, int part, int parts, at::Device device) {
  at::manual_seed(static_cast<std::uint64_t>(update) + 100);
  learners::Batch batch = learners::random_batch(learner.columns(), kGlobalBatch);
  const std::int64_t rows = kGlobalBatch / parts;
  for (at::Tensor& column : batch.columns)
    column = column.narrow(0, part * rows, rows).to(device).contiguous();
  return batch;
}

// With PART PARTS at the end a single process uses only that share: the control for the effect of shares.
void learn_union(const std::vector<std::string>& a) {
  dist::Options group_options;
  group_options.fingerprint = "train_probe";
  group_options.device = a.at(3);
  dist::DistContext group(dist::this_world(), group_options);
  learners::LearnerOptions options;
  options.device = group.device();
  options.algo = a.at(1);
  options.output_activation = a.at(2);
  options.hidden_size = 16;
  options.a_lr = options.c_lr = 3e-3;
  const auto learner = learners::make_learner(options);
  const learners::Average average = [&](at::Tensor& gradient) {
    group.all_reduce_mean(gradient, group.deadline());
  };
  const bool alone = a.size() > 5;
  const int part = alone ? std::stoi(a.at(5)) : group.rank();
  const int parts = alone ? std::stoi(a.at(6)) : group.size();
  for (int update = 0; update < kUpdates; ++update)
    learner->update(share(*learner, update, part, parts, group.device()), average);
  nets::NamedTensors state = learner->state();
  for (auto& [name, tensor] : state) tensor = tensor.cpu();
  if (group.is_main()) io::save_state_dict(a.at(4), state);
  group.barrier("end", group.deadline());
}

void act(const std::vector<std::string>& a) {
  const auto policy = nets::make_policy(io::load_state_dict(a.at(2)), nets::head_from_name(a.at(1)), a.at(2));
  io::save_state_dict(a.at(4),
                      {{"values", policy->action_values(with_constant(observations_of(a.at(3)))).clone()}});
}

// NAME VALUE ..., also with dashes before the name, from a[first] on.
train::TrainOptions options_from(const std::vector<std::string>& a, std::size_t first) {
  train::TrainOptions options;
  const io::Fields fields = train::fields(options);
  for (std::size_t i = first; i + 1 < a.size(); i += 2) {
    const auto named = [&](const io::Field& field) {
      return a[i] == field.name || a[i] == "--" + field.name;
    };
    const auto field = std::find_if(fields.begin(), fields.end(), named);
    SD_CHECK(field != fields.end(), "unknown flag " + a[i]);
    io::set_from_text(*field, a[i + 1]);
  }
  return options;
}

int train_perturbed(const std::vector<std::string>& a, double by) {
  const train::TrainOptions options = options_from(a, 3);
  const dist::World world = dist::this_world();
  learners::Learner* learner = nullptr;
  g_decorate = [&](std::unique_ptr<learners::Learner> made) {
    learner = made.get();
    return made;
  };
  bool changed = world.rank != std::stoi(a.at(1));
  return train::run_training(options, world, [&](const train::Progress& progress) {
    if (changed || progress.updates < std::stoll(a.at(2))) return;
    changed = true;
    learner->exported_critic().back().second.view(-1)[0] += by;
  });
}

int train_with(const std::vector<std::string>& a) {
  const std::string& deed = a.at(1);
  const train::TrainOptions options = options_from(a, 4);
  const std::int64_t step = std::stoll(a.at(2)) * options.num_envs;
  const auto watch = [&](const train::Progress& now) {
    if (deed == "stop" && now.steps == step) std::raise(SIGTERM);
    if (deed == "stall" && now.steps == step) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (deed == "slow" && now.steps <= step) std::this_thread::sleep_for(std::chrono::milliseconds(250));
  };
  const dist::World world = dist::this_world();
  return train::run_training(options, world, watch, std::chrono::milliseconds(std::stoll(a.at(3))));
}

void judge_slowly() {
  dist::Options group_options;
  group_options.fingerprint = "train_probe";
  group_options.device = "cpu";
  dist::DistContext group(dist::this_world(), group_options);
  dist::Watchdog watchdog(group.rank(), {.step = std::chrono::seconds(1)});
  const train::Alive alive = [&](std::chrono::milliseconds longer) { watchdog.tick("judging", longer); };
  play::MatchOptions match{2 * play::kBlock, 1, true, 0, 1, {}};
  match.watch = [&](std::int64_t game, const game::State&) {
    alive({});
    if (game % play::kBlock == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(10 + 8 * group.rank()));
  };
  const rollout::Player player{game::Opponent::kLevel0, nullptr, {}, false};
  SD_CHECK(train::judge(
               player, player, match, group, [] { return false; }, alive)
               .has_value(),
           "nothing stops it");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const std::string& mode = arguments.at(0);
    SD_CHECK(mode == "union" || mode == "act" || mode == "perturb" || mode == "spoil" || mode == "run" ||
                 mode == "judge",
             "unknown mode " + mode);
    if (mode == "perturb") return train_perturbed(arguments, 0.5);
    if (mode == "spoil") return train_perturbed(arguments, std::numeric_limits<double>::quiet_NaN());
    if (mode == "run") return train_with(arguments);
    if (mode == "judge") judge_slowly();
    if (mode == "union") learn_union(arguments);
    if (mode == "act") act(arguments);
  } catch (const core::Error& e) {
    core::tell_error(e.what());
    return e.exit_code();
  }
  return 0;
}
