// The interface between learners and the training loop. A learner knows batches and gradients, but no games or
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "snake_ddp/learners/flags.hpp"
#include "snake_ddp/nets/flat_parameters.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/replay/buffer.hpp"

namespace snake_ddp::learners {

/// Replaces a flat gradient by its mean over all ranks; passed in by the training loop. With one rank it does nothing.
class Average {
 public:
  using Whole = std::function<void(at::Tensor& flat_gradient)>;
  using Post = std::function<void(const at::Tensor& flat_gradient)>;

  Average() = default;  // alone
  template <class Callable>
  requires std::is_invocable_v<Callable, at::Tensor&> Average(Callable whole)
      : whole_(std::move(whole)) {}  // NOLINT(google-explicit-constructor): a call is one
  Average(Post post, Whole whole) : post_(std::move(post)), whole_(std::move(whole)) {}

  /// Announces a gradient early; the call with the same tensor must follow. Work in between need not wait for others.
  void post(const at::Tensor& flat_gradient) const {
    if (post_) post_(flat_gradient);
  }
  void operator()(at::Tensor& flat_gradient) const {
    if (whole_) whole_(flat_gradient);
  }

 private:
  Post post_;
  Whole whole_;
};

/// What a learner is made with. The loop fills it from the settings.
struct LearnerOptions : SharedFlags {
  std::string algo = "ddpg";
  std::int64_t features = 30;
  bool library_products =
      false;               // the plain path of the library's products, on the CPU too: the oracle of tests
  std::uint64_t seed = 1;  // of the initial weights; the same on every rank
  at::Device device = at::kCPU;
  config::Values own = {};  // flags of one learner alone, by name; what is missing has its default

  /// The own flags of a learner: a struct whose `fields()` lists its members.
  template <class Flags>
  [[nodiscard]] Flags read() const {
    Flags flags;
    config::set_from_values(flags.fields(), own);
    return flags;
  }
};

/// Numbers of the last update, for reports.
struct UpdateStats {
  double actor_loss = 0;
  double critic_loss = 0;
  double actor_grad_norm = 0;  // before clipping
  double critic_grad_norm = 0;
  double q_mean = 0;
};

/// From what Learner::measured gave, [5] float32 in main memory.
UpdateStats stats_from(const at::Tensor& measured);

/// The source of the loop's batches.
enum class Feed {
  kReplay,   // transitions drawn from replay
  kWindows,  // windows of a game's consecutive transitions, drawn from replay
  kRollout,  // every so many steps all transitions since the last time, in shuffled parts, some times over; then
             // they are forgotten
};

class Learner {
 public:
  virtual ~Learner() = default;

  /// What replay must store, in the order that `update` expects.
  [[nodiscard]] virtual std::vector<replay::Column> columns() const = 0;

  /// With Feed::kRollout, before the updates from one: turns its transitions, oldest first and in the order of
  /// `columns`, into the rows that `update` takes.
  virtual void prepare(replay::Batch& /*rollout*/) {}

  [[nodiscard]] virtual nets::Policy& policy() = 0;

  /// One optimizer step of each network on this rank's batch.
  /// Collective  calls `average` the same number of times on every rank.
  virtual void update(const replay::Batch& batch, const Average& average) = 0;

  /// Updates that queue the same work on a device have the same number; this is the next one's. Recordings with equal numbers
  /// are interchangeable.
  [[nodiscard]] virtual int next_kind() const { return 0; }
  /// A recording was replayed in place of `update`.
  virtual void count_update() {}

  /// Learning rates become `factor` x the options' ones, for the updates that follow.
  virtual void scale_rates(double factor) = 0;

  /// UpdateStats of the last update, [5] float32 in their order, where the learner computes. Queued there; waits for nothing.
  [[nodiscard]] virtual at::Tensor measured() const = 0;
  /// Of the last update.
  /// Cost        waits for the device.
  [[nodiscard]] UpdateStats stats() const;

  /// Everything that a bit-exact continuation needs: weights, targets, moments, step counters. Views; Owner:
  /// learner.
  [[nodiscard]] virtual nets::NamedTensors state() = 0;
  /// Must be called after tensors from `state()` were written.
  virtual void state_changed() = 0;

  /// What goes into actor_N.pth and critic_N.pth, under the reference's names where it has such a network. Views;
  /// Owner: learner.
  [[nodiscard]] virtual nets::NamedTensors exported_actor() = 0;
  [[nodiscard]] virtual nets::NamedTensors exported_critic() = 0;
  /// Must be called after the exported tensors were written: targets start from them, moments from zero.
  virtual void start_from_exported() = 0;
};

/// A learner and what it can do. Which flags go with it follows from this.
struct LearnerEntry {
  std::string name;
  std::unique_ptr<Learner> (*make)(const LearnerOptions&);
  config::Fields (*flags)();  // shared and own ones, over their defaults
  Feed feed = Feed::kReplay;
  bool actor = false;          // a policy that draws its moves; learns from scaled features, too
  bool n_step = false;         // takes rewards of several steps in one transition
  bool device_boards = false;  // learns from boards and replay on its device
  bool cuda_graphs = false;    // its updates may be recorded
  bool low_precision = false;  // its products may be tf32 or bf16
  bool tokens = false;         // may read tokens behind its features
  bool searches = false;       // a Q-network without memory, with which a team can look ahead
  /// Throws  UsageError for flags that do not go together.
  void (*check)(const LearnerOptions&) = [](const LearnerOptions&) {};
};
const std::vector<LearnerEntry>& registry();

/// Throws  UsageError for an unknown name, listing the known ones.
const LearnerEntry& find_learner(const std::string& algo);

/// Throws  UsageError for an unknown options.algo, listing the known ones.
std::unique_ptr<Learner> make_learner(const LearnerOptions& options);

}  // namespace snake_ddp::learners
