// The learners' flags, in groups: each learner lists the groups that it uses.
#pragma once

#include <cstdint>
#include <string>

#include "io/fields.hpp"

namespace snake_ddp::learners {

inline constexpr const char *kPythonFlags = "As in the Python trainer", *kLearningFlags = "Learning";

struct NetFlags {
  double c_lr = 3e-4;
  std::int64_t hidden_size = 256;
  double max_grad_norm = 1.0;
  io::Fields fields() {
    return io::joined(
        {io::under(kPythonFlags,
                   {io::number("c_lr", &c_lr, "learning rate of the critic or Q-network", 0, 1)}),
         io::under(kLearningFlags,
                   {io::number("hidden_size", &hidden_size, "width of the hidden layers", 1, 65536),
                    io::number("max_grad_norm", &max_grad_norm, "gradients are clipped to this norm", 1e-6,
                               1e9)})});
  }
};

struct TargetFlags {
  double tau = 0.01;
  io::Fields fields() {
    return io::under(kPythonFlags,
                     {io::number("tau", &tau, "Polyak averaging rate of the target networks", 0, 1)});
  }
};

struct LayerNormFlags {
  bool layer_norm = false;
  io::Fields fields() {
    return io::under(kLearningFlags,
                     {io::flag("layer_norm", &layer_norm, "layer norm in the critic or Q-network")});
  }
};

struct MirrorFlags {
  bool mirror_symmetric = false;
  io::Fields fields() {
    return io::under(kLearningFlags, {io::flag("mirror_symmetric", &mirror_symmetric,
                                               "weights that give mirrored situations mirrored values; for "
                                               "--obs window, view and ahead")});
  }
};

struct ActorFlags {
  std::string output_activation = "softmax";
  double a_lr = 3e-4;
  io::Fields fields() {
    return io::under(kPythonFlags, {io::text("output_activation", &output_activation,
                                             "last layer of the actor", {"softmax", "tanh"}),
                                    io::number("a_lr", &a_lr, "learning rate of the actor", 0, 1)});
  }
};

struct ExpectedValueFlags {
  bool expected_value = false;  // Q(s, a) = sum over moves of a_i Q(s, e_i) wherever a is an actor's output
  io::Fields fields() {
    return io::under(kLearningFlags,
                     {io::flag("expected_value", &expected_value,
                               "keep the moves that were played in replay, one-hot, instead of the actor's "
                               "outputs; an output's value is the expectation over its moves")});
  }
};

/// Of learners with Feed::kWindows.
struct WindowFlags {
  std::int64_t sequence_length = 16;  // transitions of a window
  std::int64_t burn_in = 4;           // the first of them, which only warm up the memory
  io::Fields fields() {
    return io::under(
        kLearningFlags,
        {io::number("sequence_length", &sequence_length, "consecutive transitions in a window", 1, 200),
         io::number("burn_in", &burn_in,
                    "transitions at the start of each window that only warm up the memory", 0, 199)});
  }
};

/// Of learners with Feed::kRollout.
struct RolloutFlags {
  double td_lambda = 0.65;
  io::Fields fields() {
    return io::under(
        kLearningFlags,
        {io::number("td_lambda", &td_lambda,
                    "lambda of the returns; 0: one step, 1: up to the end of the rollout", 0, 1)});
  }
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
  io::Fields all_fields() {
    return io::joined({NetFlags::fields(), TargetFlags::fields(), LayerNormFlags::fields(),
                       MirrorFlags::fields(), ActorFlags::fields(), ExpectedValueFlags::fields(),
                       WindowFlags::fields(), RolloutFlags::fields()});
  }
};

}  // namespace snake_ddp::learners
