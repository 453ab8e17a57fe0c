// Actors in the forms that other programs load.
#pragma once

#include <string>
#include <vector>

#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/nets/dense.hpp"

namespace snake_ddp::app {

/// An actor that a file holds, known to be one.
struct ActorFile {
  std::string path;
  files::NamedTensors weights = {};
  std::string record = {};  // what the file says about them
  nets::Head head = nets::Head::kSoftmax;
  bool argmax = false;
  bool mask_fatal = false;
  bool bare = false;    // a submission makes the network's own moves, without a search
  bool tokens = false;  // it also reads what other networks make of the boards before
};

/// `spec` is the actor's part of a team SPEC: PATH, or PATH:argmax. `head` is "softmax", "tanh", or empty for the one
/// that a player takes; a Q-network has none. `mask_fatal`: it makes no fatal move, as
/// Q-networks never do.
/// Throws  UsageError for a scripted team or an unknown head; FileError for a file that is no actor.
ActorFile read_actor(const std::string& spec, const std::string& head, bool mask_fatal = false);

/// One of the forms. `suffix` makes the default path: the actor's name without .pth, then this.
struct ExportFormat {
  std::string name;
  std::string suffix;
  void (*write)(const ActorFile& actor, const std::string& output);  // throws FileError
};

/// submission, torchscript, safetensors.
const std::vector<ExportFormat>& export_formats();

}  // namespace snake_ddp::app
