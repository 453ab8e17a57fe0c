// The learners' flags, in groups: each learner lists the groups that it uses.
#pragma once

#include <cstdint>
#include <string>

#include "io/fields.hpp"

namespace snake_ddp::learners {

struct NetFlags {
  double c_lr = 3e-4;
  std::int64_t hidden_size = 256;
  double max_grad_norm = 1.0;
  io::Fields fields();
};

struct TargetFlags {
  double tau = 0.01;
  io::Fields fields();
};

struct LayerNormFlags {
  bool layer_norm = false;
  io::Fields fields();
};

struct MirrorFlags {
  bool mirror_symmetric = false;
  io::Fields fields();
};

struct ActorFlags {
  std::string output_activation = "softmax";
  double a_lr = 3e-4;
  io::Fields fields();
};

struct ExpectedValueFlags {
  bool expected_value = false;  // Q(s, a) = sum over moves of a_i Q(s, e_i) wherever a is an actor's output
  io::Fields fields();
};

/// Of learners with Feed::kWindows.
struct WindowFlags {
  std::int64_t sequence_length = 16;  // transitions of a window
  std::int64_t burn_in = 4;           // the first of them, which only warm up the memory
  io::Fields fields();
};

/// Of learners with Feed::kRollout.
struct RolloutFlags {
  double td_lambda = 0.65;
  io::Fields fields();
};

/// All of them.
struct LearnerFlags : NetFlags,
                      TargetFlags,
                      LayerNormFlags,
                      MirrorFlags,
                      ActorFlags,
                      ExpectedValueFlags,
                      WindowFlags,
                      RolloutFlags {
  io::Fields all_fields();
};

}  // namespace snake_ddp::learners
