// Actors in formats that other programs load.
#pragma once

#include <string>
#include <vector>

#include "snake_ddp/encode/obs_kind.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/nets/dense.hpp"

namespace snake_ddp::app {

/// The contents of an actor's file, checked to be an actor's.
struct ActorFile {
  std::string path;
  std::string spec = {};  // the path, and what its weights mean if the file does not say it
  files::NamedTensors weights = {};
  std::string record = {};  // the file's record
  nets::Head head = nets::Head::kSoftmax;
  bool argmax = false;
  bool mask_fatal = false;
  bool bare = false;  // a submission makes the network's own moves, without a search
  encode::ObsKind obs = encode::ObsKind::k30;
  bool tokens = false;   // it also reads the outputs of pretrained networks
  bool renamed = false;  // the file has its weights under other names
  int view_radius = 0;   // above 0, it does not see farther than this
};

/// `spec` is the actor's part of a team SPEC: PATH, or PATH:argmax. `head` is "softmax", "tanh", or empty
/// for the one that team_from_spec finds; a Q-network has none. `mask_fatal`: the actor never makes a fatal
/// move, as Q-networks never do.
/// Throws  UsageError for a scripted team or an unknown head; FileError for a file that is not an actor's.
ActorFile read_actor(const std::string& spec, const std::string& head, bool mask_fatal = false);

/// One of the formats. `suffix` makes the default path: the actor's name without .pth, then this.
struct ExportFormat {
  std::string name;
  std::string suffix;
  void (*write)(const ActorFile& actor, const std::string& output);  // throws FileError
};

/// submission, torchscript, safetensors.
const std::vector<ExportFormat>& export_formats();

}  // namespace snake_ddp::app
