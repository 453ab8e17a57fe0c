#include "learners/flags.hpp"

namespace snake_ddp::learners {
namespace {

using io::flag, io::number, io::text, io::under;
constexpr const char *kPython = "As in the Python trainer", *kLearning = "Learning";

}  // namespace

io::Fields NetFlags::fields() {
  return io::joined(
      {under(kPython, {number("c_lr", &c_lr, "learning rate of the critic or Q-network", 0, 1)}),
       under(kLearning,
             {number("hidden_size", &hidden_size, "width of the hidden layers", 1, 65536),
              number("max_grad_norm", &max_grad_norm, "gradients are clipped to this norm", 1e-6, 1e9)})});
}

io::Fields TargetFlags::fields() {
  return under(kPython, {number("tau", &tau, "Polyak averaging rate of the target networks", 0, 1)});
}

io::Fields LayerNormFlags::fields() {
  return under(kLearning, {flag("layer_norm", &layer_norm, "layer norm in the critic or Q-network")});
}

io::Fields MirrorFlags::fields() {
  return under(kLearning, {flag("mirror_symmetric", &mirror_symmetric,
                                "weights that give mirrored situations mirrored values; for --obs "
                                "window, view and ahead")});
}

io::Fields ActorFlags::fields() {
  return under(kPython,
               {text("output_activation", &output_activation, "last layer of the actor", {"softmax", "tanh"}),
                number("a_lr", &a_lr, "learning rate of the actor", 0, 1)});
}

io::Fields ExpectedValueFlags::fields() {
  return under(kLearning,
               {flag("expected_value", &expected_value,
                     "keep the moves that were played in replay, one-hot, instead of the actor's outputs; an "
                     "output's value is the expectation over its moves")});
}

io::Fields WindowFlags::fields() {
  return under(kLearning,
               {number("sequence_length", &sequence_length, "consecutive transitions in a window", 1, 200),
                number("burn_in", &burn_in,
                       "transitions at the start of each window that only warm up the memory", 0, 199)});
}

io::Fields RolloutFlags::fields() {
  return under(kLearning,
               {number("td_lambda", &td_lambda,
                       "lambda of the returns; 0: one step, 1: up to the end of the rollout", 0, 1)});
}

io::Fields LearnerFlags::all_fields() {
  return io::joined({NetFlags::fields(), TargetFlags::fields(), LayerNormFlags::fields(),
                     MirrorFlags::fields(), ActorFlags::fields(), ExpectedValueFlags::fields(),
                     WindowFlags::fields(), RolloutFlags::fields()});
}

}  // namespace snake_ddp::learners
