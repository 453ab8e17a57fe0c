// Flags that several learners share, in groups. A flag of a single learner is in that learner's own file.
#pragma once

#include <cstdint>
#include <string>

#include "snake_ddp/config/fields.hpp"

namespace snake_ddp::learners {

struct NetFlags {
  double c_lr = 3e-4;
  std::int64_t hidden_size = 256;
  double max_grad_norm = 1.0;
  config::Fields fields();
};

struct TargetFlags {
  double tau = 0.01;
  config::Fields fields();
};

struct LayerNormFlags {
  bool layer_norm = false;
  config::Fields fields();
};

struct MirrorFlags {
  bool mirror_symmetric = false;
  config::Fields fields();
};

struct ActorFlags {
  std::string output_activation = "softmax";
  double a_lr = 3e-4;
  std::string stored_action = "output";
  std::int64_t actor_interval = 1;  // critic updates for each update of the actor and the targets
  config::Fields fields();
};

/// Of learners with Feed::kWindows.
struct WindowFlags {
  std::int64_t sequence_length = 16;  // transitions of a window
  std::int64_t burn_in = 4;           // the first of them, which only warm up the memory
  config::Fields fields();
};

struct SharedFlags : NetFlags, TargetFlags, LayerNormFlags, MirrorFlags, ActorFlags, WindowFlags {
  config::Fields shared_fields();
};

}  // namespace snake_ddp::learners
