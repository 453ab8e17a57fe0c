// The record in an actor's file beside its weights, by which it can be played outside its run's folder.
#pragma once

#include <optional>
#include <string>

#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/nets/dense_shape.hpp"
#include "snake_ddp/search/evaluator.hpp"
#include "snake_ddp/train/plan.hpp"

namespace snake_ddp::train {

struct ActorRecord {
  std::string learner, obs, tokens;  // as the flags --algo, --obs, --tokens
  play::Sight sight;                 // of raw features
  nets::Head head;                   // identity: a Q-network
  std::string reward = "score";      // what it was trained for, as the flag
  search::Training training = {};    // what its values mean
};

/// The record of a run's actors, one JSON object; docs/formats.md has its keys.
std::string actor_record_text(const Plan& plan, const files::NamedTensors& actor);

/// Reads a file's record and compares it with the weights.
/// Returns  nothing for a file without one.
/// Throws   FileError if the record is damaged, of a later format, or contradicts the weights.
std::optional<ActorRecord> read_actor_record(const files::SavedWeights& file, const std::string& path);

}  // namespace snake_ddp::train
