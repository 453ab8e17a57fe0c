// What the weights in a file mean: the record beside them, or what else says it.
#pragma once

#include <string>
#include <string_view>

#include "io/state_dict.hpp"
#include "nets/dense_shape.hpp"
#include "snake_ddp/play/evaluator.hpp"
#include "train/plan.hpp"

namespace snake_ddp::train {

struct ActorRecord {
  std::string learner, obs, tokens;  // as the flags --algo, --obs, --tokens
  play::ObsSpec obs_spec;            // of raw features
  nets::Head head;                   // identity: a Q-network
  std::string reward = "score";      // what it was trained for, as the flag
  play::Training training = {};      // what its values mean
};

/// The record of a run's actors, one JSON object; docs/reference/formats.md has its keys.
std::string actor_record_text(const Plan& plan, const io::NamedTensors& actor);

/// What a user says about weights; empty where nothing is said.
struct Said {
  std::string head, obs, tokens = {};  // as --output_activation, --obs, --tokens
  int view_radius = 0;
};

/// Takes one of the words that may follow a file's name: softmax, tanh, view, ahead.
/// Returns  false if it is none of them.
bool take_word(Said& said, std::string_view word);

/// The one rule of what weights mean, for all commands: what is `said`; else the file's record; else the settings of its
/// run, config.json of this program or config.yaml of the Python trainer, in the file's folder or the one above; else
/// what is said `otherwise`. Rewards that nothing names are those of configs/champion.json. `before` is what a user types in front
/// of the path.
/// Throws   FileError if the record or the settings are damaged, have a value that no flag takes, or contradict the weights;
///          UsageError that says what to type if nothing says an actor's last layer, or which of two observations of one size.
ActorRecord actor_record(const io::SavedWeights& file, const std::string& path, const Said& said = {},
                         const Said& otherwise = {}, std::string_view before = "");

/// One line for a user about names that were read without their prefix; empty if they had none.
std::string remark_on(const io::SavedWeights& file, const std::string& path);

}  // namespace snake_ddp::train
