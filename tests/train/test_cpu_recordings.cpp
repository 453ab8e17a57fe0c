// Recordings as on a GPU, of a pipeline's policy outputs, moves, draws and updates.
#include <ATen/Parallel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "cpu_recordings.hpp"
#include "learners/adam.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/precision.hpp"
#include "pipeline.hpp"
#include "train/file_teams.hpp"

#ifdef SD_HAVE_WITNESS
namespace {

using namespace snake_ddp;

struct Case {
  std::string what, algo;
  const char* obs;
  bool layer_norm;
  bool expected_value = false;
  const char* products = "float32";
  const char* mix = "";
};

// What a recording could get wrong, and each learner whose updates may be recorded.
std::vector<Case> cases() {
  std::vector<Case> all = {
      {"ddpg", "ddpg", "30", false},
      {"ddpg, expectations", "ddpg", "26", true, true},
      {"dqn", "dqn", "window", true},
      {"dqn without layer norm", "dqn", "30", false},
      {"vdn", "vdn", "30", true},
      {"qmix", "qmix", "view", true},
      {"dqn in tf32", "dqn", "view", true, false, "tf32"},
      {"dqn against itself", "dqn", "ahead", true, false, "float32", "level1:0.2,self:0.5,territory:0.3"},
      {"pqn", "pqn", "view", true},
      {"pqn_vdn against itself", "pqn_vdn", "ahead", true, false, "float32", "level1,self"},
  };
  for (const learners::LearnerEntry& entry : learners::registry()) {
    const bool listed =
        std::any_of(all.begin(), all.end(), [&](const Case& c) { return c.algo == entry.name; });
    if (entry.cuda_graphs && !listed) all.push_back({entry.name, entry.name, "view", true});
  }
  return all;
}

train::TrainOptions options_of(const Case& c) {
  train::TrainOptions o;
  o.algo = c.algo;
  o.obs = c.obs;
  o.layer_norm = c.layer_norm;
  o.expected_value = c.expected_value;
  o.products = c.products;
  o.boards = "device";
  o.hidden_size = 8;
  o.batch_size = 8;
  o.num_envs = 4;
  o.n_step = 2;
  o.episode_length = 11;
  o.buffer_size = 60;
  o.epsilon_speed = 0.99;
  o.opponent_mix = c.mix;
  o.rollout_steps = 3;
  return o;
}

/// Of this precision while it lives.
struct Products {
  explicit Products(nets::Precision precision) { nets::set_product_precision(precision); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() { nets::set_product_precision(nets::Precision::kFloat32); }
};

struct Outcome {
  nets::NamedTensors state;
  at::Tensor measured;
  learners::Batch batch;
  train::PipelineCount count;
  std::vector<rollout::Episode> ended;
};

// 46 steps of boards and learner as on a device, on the CPU; each update has a learning rate of its own, and each step of the
// boards an epsilon. Learner and pipeline live until `at_end` returns.
Outcome played(const Case& c, const train::MakeDeviceGraph& record) {
  const train::Plan plan(options_of(c));
  at::set_num_threads(1);
  const Products products(plan.precision);
  learners::LearnerOptions options = train::learner_options(plan, at::kCPU);
  options.backend = &nets::aten_backend();
  const auto learner = learners::make_learner(options);
  const train::League league(train::league_options(plan));
  const train::FileTeams files(plan);
  const rollout::CollectorOptions collector_options = train::collector_options(plan, 0, league, files, 0);
  learners::Buffer replay(rollout::with_boards(learner->columns(), plan.obs_spec),
                          train::replay_capacity(plan));
  std::optional<rollout::Rollout> rollout;
  if (train::learns_from_rollouts(plan))
    rollout.emplace(train::rollout_options(plan, 0), collector_options,
                    rollout::seats_of(collector_options.rivals, plan.num_envs), at::kCPU);
  rollout::Collector collector(collector_options, replay, rollout ? &*rollout : nullptr, 7);
  train::Pipeline pipeline({plan, collector_options.seed, *learner, collector, replay,
                            rollout ? &*rollout : nullptr, at::kCPU, record});
  Outcome out;
  const learners::Average average = [](at::Tensor& gradient) { gradient.mul_(0.5); };
  for (std::int64_t step = 0; step < 46; ++step) {
    pipeline.step(out.ended);
    if (step % 7 == 6) pipeline.fetch(out.ended);
    learner->scale_rates(1.0 - 0.02 * static_cast<double>(step));
    std::int64_t updates = step < 5 ? 0 : 1;
    if (rollout) updates = rollout->is_due() ? plan.rollout_epochs * train::batches_per_epoch(plan) : 0;
    for (; updates > 0; --updates) {
      pipeline.draw();
      pipeline.learn(average);
    }
  }
  pipeline.fetch(out.ended);
  for (const auto& [name, tensor] : learner->state()) out.state.emplace_back(name, tensor.clone());
  out.measured = learner->measured().clone();
  for (const at::Tensor& column : pipeline.last_batch().columns) out.batch.columns.push_back(column.clone());
  out.count = pipeline.count();
  return out;
}

}  // namespace

TEST_CASE("each learner whose updates may be recorded is recorded here", "[unit]") {
  std::set<std::string> may, are;
  for (const learners::LearnerEntry& entry : learners::registry())
    if (entry.cuda_graphs) may.insert(entry.name);
  for (const Case& c : cases()) are.insert(c.algo);
  CHECK(are == may);
}

TEST_CASE("changes reach a replay through tensors only: rate, epsilon, step and batch", "[unit]") {
  for (const Case& c : cases()) {
    CAPTURE(c.what);
    const Outcome plain = played(c, {}), replayed = played(c, [] { return std::make_unique<Tape>(); });
    REQUIRE(replayed.state.size() == plain.state.size());
    for (std::size_t k = 0; k < plain.state.size(); ++k) {
      CAPTURE(plain.state[k].first);
      CHECK(at::equal(replayed.state[k].second, plain.state[k].second));
    }
    CHECK(at::equal(replayed.measured, plain.measured));
    for (std::size_t k = 0; k < plain.batch.columns.size(); ++k)
      CHECK(at::equal(replayed.batch.columns[k], plain.batch.columns[k]));
    CHECK(replayed.count.epsilon == plain.count.epsilon);
    CHECK(replayed.count.epsilon < 0.4);
    CHECK(replayed.count.replay_appended == plain.count.replay_appended);
    CHECK(replayed.ended.size() == plain.ended.size());
    CHECK(plain.ended.size() == 16);
  }
}

TEST_CASE("a recording's memory is not freed, and it reads no number on the host", "[unit]") {
  c10::SetCPUAllocator(&SpiedMemory::instance(), 1);
  for (const Case& c : cases()) {
    CAPTURE(c.what);
    std::vector<std::string> faults;
    played(c, [&] { return std::make_unique<Spy>(faults); });
    CHECK(faults == std::vector<std::string>{});
  }
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
}
#endif
