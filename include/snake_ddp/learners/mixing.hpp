// What QMIX has beside its agents' network: a mixing network that learns, and its target.
#pragma once

#include "snake_ddp/learners/adam.hpp"
#include "snake_ddp/learners/learner.hpp"
#include "snake_ddp/nets/mixer.hpp"

namespace snake_ddp::learners {

struct Mixing {
  explicit Mixing(const LearnerOptions& options);
  /// The target becomes the network, the optimizer forgets.
  void start();
  /// Averages the gradient, then steps; the target follows.
  void step(const Average& average, const LearnerOptions& options);
  /// Appends what a bit-exact continuation needs.
  void add_state(nets::NamedTensors& out);

  nets::Mixer mixer, target;
  nets::FlatParameters gradient;
  Adam adam;
  nets::MixerPass pass, target_pass;
};

}  // namespace snake_ddp::learners
