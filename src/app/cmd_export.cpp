#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "app/command_line.hpp"
#include "app/team.hpp"
#include "embedded.hpp"
#include "io/atomic_file.hpp"
#include "io/folders.hpp"
#include "io/json_text.hpp"
#include "io/other_formats.hpp"
#include "io/state_dict.hpp"
#include "nets/dense.hpp"
#include "nets/gru_net.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/obs_kind.hpp"

namespace snake_ddp::app {
namespace {

// The contents of an actor's file, checked to be an actor's.
struct ActorFile {
  std::string path;
  std::string spec = {};  // the path, and what its weights mean if the file does not say it
  io::NamedTensors weights = {};
  std::string record = {};  // the file's record
  nets::Head head = nets::Head::kSoftmax;
  bool argmax = false;
  bool mask_fatal = false;
  bool bare = false;  // a submission makes the network's own moves, without a search
  game::ObsKind obs = game::ObsKind::k30;
  bool tokens = false;   // it also reads the outputs of pretrained networks
  bool renamed = false;  // the file has its weights under other names
  int view_radius = 0;   // above 0, it does not see farther than this
};

// One of the formats. `suffix` makes the default path: the actor's name without .pth, then this.
struct ExportFormat {
  std::string name;
  std::string suffix;
  void (*write)(const ActorFile& actor, const std::string& output);  // throws FileError
};

namespace fs = std::filesystem;

// A kind of network, recognised by a tensor that the others do not have; `logits` is the TorchScript function from
// features to the input of the last activation.
struct NetworkKind {
  const char* name;
  const char* mark;
  const char* logits;
};

constexpr NetworkKind kKinds[] = {
    {"bicnet", "comm_net.lstm.weight_ih_l0", R"(
def logits(self, features: Tensor) -> Tensor:
    first = getattr(self.prev_dense, "0")
    lstm = self.comm_net.lstm
    second = getattr(self.post_dense, "0")
    third = getattr(self.post_dense, "2")
    snakes = torch.linear(features, first.weight, first.bias)
    start = torch.zeros([2, snakes.size(0), snakes.size(2)], dtype=snakes.dtype, device=snakes.device)
    weights = [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0,
               lstm.weight_ih_l0_reverse, lstm.weight_hh_l0_reverse, lstm.bias_ih_l0_reverse, lstm.bias_hh_l0_reverse]
    team, hidden_state, cell = torch.lstm(snakes, [start, start], weights, True, 1, 0.0, False, True, True)
    hidden = torch.relu(torch.linear(team, second.weight, second.bias))
    return torch.linear(hidden, third.weight, third.bias)
)"},
    {"rqmix", "gru.weight_ih", ""},  // the other formats cannot represent memory
    {"dqn", "norm_0.weight", R"(
def logits(self, features: Tensor) -> Tensor:
    first, second, third = getattr(self.q_net, "0"), getattr(self.q_net, "1"), getattr(self.q_net, "2")
    hidden = torch.linear(features, first.weight, first.bias)
    hidden = torch.relu(torch.layer_norm(hidden, [hidden.size(-1)], self.norm_0.weight, self.norm_0.bias))
    hidden = torch.linear(hidden, second.weight, second.bias)
    hidden = torch.relu(torch.layer_norm(hidden, [hidden.size(-1)], self.norm_1.weight, self.norm_1.bias))
    return torch.linear(hidden, third.weight, third.bias)
)"},
    {"dqn", "q_net.0.weight", R"(
def logits(self, features: Tensor) -> Tensor:
    first, second, third = getattr(self.q_net, "0"), getattr(self.q_net, "1"), getattr(self.q_net, "2")
    hidden = torch.relu(torch.linear(features, first.weight, first.bias))
    hidden = torch.relu(torch.linear(hidden, second.weight, second.bias))
    return torch.linear(hidden, third.weight, third.bias)
)"},
    {"ddpg", "prev_dense.0.weight", R"(
def logits(self, features: Tensor) -> Tensor:
    first = getattr(self.prev_dense, "0")
    second = getattr(self.post_dense, "0")
    third = getattr(self.post_dense, "2")
    hidden = torch.linear(features, first.weight, first.bias)
    hidden = torch.relu(torch.linear(hidden, second.weight, second.bias))
    return torch.linear(hidden, third.weight, third.bias)
)"},
};

struct HeadKind {
  nets::Head head;
  const char* name;
  const char* forward;
};

// A Q-network's output is that of its last layer.
constexpr HeadKind kValues = {nets::Head::kSoftmax, "values", R"(
def forward(self, features: Tensor) -> Tensor:
    return self.logits(features)
)"};

// Both give probabilities: players sample from the output divided by its sum.
constexpr HeadKind kHeads[] = {
    {nets::Head::kSoftmax, "softmax", R"(
def forward(self, features: Tensor) -> Tensor:
    return torch.softmax(self.logits(features), -1)
)"},
    {nets::Head::kTanh, "tanh", R"(
def forward(self, features: Tensor) -> Tensor:
    weights = torch.relu(torch.tanh(self.logits(features)))
    total = weights.sum(-1, True)
    return torch.where(total > 0, weights / total, torch.full_like(weights, 0.25))
)"},
};

const NetworkKind& kind_of(const ActorFile& actor) {
  for (const NetworkKind& kind : kKinds)
    if (nets::find(actor.weights, kind.mark) != nullptr) return kind;
  throw core::FileError(actor.path + ": a network that this version cannot export");
}

const HeadKind& head_of(const ActorFile& actor) {
  if (nets::is_q_net(actor.weights)) return kValues;
  for (const HeadKind& head : kHeads) {
    if (head.head == actor.head) return head;
  }
  throw core::Bug("an actor without a head");
}

std::string filled_in(std::string text, const std::string& name, const std::string& value) {
  const std::string place = "@" + name + "@";
  const std::size_t at = text.find(place);
  SD_CHECK(at != std::string::npos, place);
  return text.replace(at, place.size(), value);
}

// Escaped for a Python string.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (c >= 0 && c < ' ') {
      out += fmt::format("\\x{:02x}", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

void refuse_memory(const ActorFile& actor, const char* format) {
  if (nets::is_gru_net(actor.weights))
    throw core::UsageError(fmt::format(
        "--format {}: {} is a recurrent Q-network, whose moves depend on earlier steps, which "
        "this format cannot represent; eval plays it, and --format safetensors exports its weights",
        format, actor.path));
}

// What the network's values mean to a submission that looks ahead; nothing for one that does not.
std::optional<play::Training> training_for_search(const ActorFile& actor) {
  if (actor.bare || !nets::is_q_net(actor.weights)) return std::nullopt;
  try {
    return team_from_spec(actor.spec + ":puct1024x32").player.search->training;
  } catch (const core::UsageError& e) {
    core::tell_error(fmt::format("Warning: the submission plays the network's own moves: {}", e.what()));
    return std::nullopt;
  }
}

constexpr const char* kScript = "submission.py";

void write_submission(const ActorFile& actor, const std::string& output) {
  refuse_memory(actor, "submission");
  if (actor.tokens)
    throw core::UsageError(
        fmt::format("--format submission: {} was trained with --tokens; a submission has no tokenizer. eval "
                    "plays it",
                    actor.path));
  if (actor.view_radius > 0)
    throw core::UsageError(
        fmt::format("--format submission: {} was trained with --view_radius {}; a submission sees the whole "
                    "window. eval plays it",
                    actor.path, actor.view_radius));
  const std::string name = fs::path(actor.path).filename().string();
  if (name == kScript)
    throw core::UsageError(fmt::format(
        "--actor {}: the submission's script has this name; give the actor another name", actor.path));
  io::make_folders(output);
  const std::string script = (fs::path(output) / kScript).string();
  refuse_to_replace(actor.path, script, "--output");
  std::string text(kSubmission);
  text = filled_in(std::move(text), "OUTPUT_ACTIVATION", head_of(actor).name);
  text = filled_in(std::move(text), "CHOICE", actor.argmax ? "argmax" : "sampled");
  text = filled_in(std::move(text), "MASK_FATAL", actor.mask_fatal ? "True" : "False");
  const std::optional<play::Training> training = training_for_search(actor);
  text = filled_in(std::move(text), "LOOK_AHEAD", training ? "True" : "False");
  const play::Training values = training.value_or(play::Training{});
  text = filled_in(std::move(text), "HEADING_UP", actor.obs == game::ObsKind::kAhead ? "True" : "False");
  text = filled_in(std::move(text), "DISCOUNT", fmt::format("{}", values.gamma));
  text = filled_in(std::move(text), "POINT", fmt::format("{}", values.point()));
  text = filled_in(std::move(text), "ACTOR_FILE", quoted(name));
  const std::string weights = (fs::path(output) / name).string();
  std::error_code error;
  const bool beside = fs::equivalent(actor.path, weights, error);
  if (beside && actor.renamed)
    throw core::UsageError(
        fmt::format("--output {}: {} has its weights under other names than a submission reads; write into "
                    "another folder",
                    output, actor.path));
  if (!beside) io::save_state_dict(weights, actor.weights, actor.record);
  io::write_file_atomically(script, text);
}

void write_torchscript(const ActorFile& actor, const std::string& output) {
  refuse_memory(actor, "torchscript");
  refuse_to_replace(actor.path, output, "--output");
  const std::string source = std::string(kind_of(actor).logits) + head_of(actor).forward;
  io::write_output(output, io::torchscript_bytes(actor.weights, source));
}

void write_safetensors(const ActorFile& actor, const std::string& output) {
  refuse_to_replace(actor.path, output, "--output");
  io::write_output(output,
                   io::safetensors_bytes(actor.weights, {{"format", "pt"},
                                                         {"network", kind_of(actor).name},
                                                         {"output_activation", head_of(actor).name},
                                                         {"obs", std::string(game::name(actor.obs))}}));
}

// `spec` is the actor's part of a team SPEC: PATH, or PATH:argmax. `head` is "softmax", "tanh", or empty
// for the one that team_from_spec finds; a Q-network has none. `mask_fatal`: the actor never makes a fatal
// move, as Q-networks never do.
// Throws  UsageError for a scripted team or an unknown head; FileError for a file that is not an actor's.
ActorFile read_actor(const std::string& spec, const std::string& head, bool mask_fatal) {
  if (!head.empty()) nets::head_from_name(head);
  const Team team = team_from_spec(spec, mask_fatal, head);  // as a player: throws unless it is an actor
  if (team.policy == nullptr)
    throw core::UsageError(fmt::format("--actor {}: a scripted team; give an actor's file", spec));
  if (team.player.search)
    throw core::UsageError(fmt::format("--actor {}: give the file without a search", spec));
  tell_remark(team);
  ActorFile actor{.path = file_of_spec(spec),
                  .spec = weights_of_spec(spec),
                  .head = team.head,
                  .argmax = team.player.argmax,
                  .mask_fatal = team.player.mask_fatal,
                  .obs = team.player.obs_spec.kind,
                  .tokens = team.player.obs_spec.tokens,
                  .view_radius = team.player.obs_spec.view_radius};
  io::SavedWeights file = io::load_weights(actor.path);
  actor.weights = std::move(file.weights);
  for (auto& [name, tensor] : actor.weights) tensor = tensor.to(at::kFloat);
  actor.record = std::move(file.record);
  actor.renamed = file.wrapped || !file.owner.empty();
  if (nets::is_q_net(actor.weights)) {
    actor.argmax = true;
  } else if (!actor.record.empty()) {
    auto record = io::parse_ordered_json(actor.record);
    record["head"] = head_of(actor).name;
    actor.record = record.dump();
  }
  return actor;
}

// submission, torchscript, safetensors.
const std::vector<ExportFormat>& export_formats() {
  static const std::vector<ExportFormat> formats = {{"submission", "_submission", write_submission},
                                                    {"torchscript", ".pt", write_torchscript},
                                                    {"safetensors", ".safetensors", write_safetensors}};
  return formats;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ExportFormat& format : export_formats()) names.push_back(format.name);
  return names;
}

const ExportFormat& format_of(const std::string& name) {
  for (const ExportFormat& format : export_formats()) {
    if (format.name == name) return format;
  }
  const std::string near = io::nearest_name(name, format_names());
  throw core::UsageError(fmt::format("--format {}: the formats are {}{}", name,
                                     fmt::join(format_names(), ", "),
                                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace

Action add_export(CLI::App& command) {
  struct Line {
    std::string actor, format, output, output_activation;
    bool mask_fatal = false, bare = false;
  };
  const auto line = std::make_shared<Line>();
  command
      .add_option(
          "--actor", line->actor,
          "an actor_*.pth, or PATH:argmax for a submission that plays the most probable moves; PATH:softmax "
          "or PATH:tanh if neither the file nor its run names the last layer")
      ->option_text("PATH");
  command.add_option("--format", line->format, fmt::format("{}", fmt::join(format_names(), "|")))
      ->option_text("WORD");
  command
      .add_option("--output", line->output,
                  "file or, for submission, folder to write [named after the actor, in the current folder]")
      ->option_text("PATH");
  command
      .add_option("--output_activation,--output-activation", line->output_activation,
                  "softmax or tanh [as the file's record or its run's settings say]")
      ->option_text("WORD");
  command.add_flag("--mask_fatal,--mask-fatal", line->mask_fatal,
                   "make a submission without fatal moves; a Q-network's never has them");
  command.add_flag(
      "--bare", line->bare,
      "make a submission that plays the network's own moves; without it, a Q-network's searches");
  return [line]() -> int {
    if (line->actor.empty() || line->format.empty())
      throw core::UsageError("export needs --actor and --format");
    const ExportFormat& format = format_of(line->format);
    if ((line->bare || line->mask_fatal) && format.name != "submission")
      throw core::UsageError(fmt::format("{} is for --format submission, not {}",
                                         line->bare ? "--bare" : "--mask_fatal", format.name));
    ActorFile actor = read_actor(line->actor, line->output_activation, line->mask_fatal);
    if (format.name != "submission" && actor.spec != line->actor)
      throw core::UsageError(
          fmt::format("--actor {}: :argmax is for --format submission; {} files return "
                      "what the network computes and leave the choice to their reader",
                      line->actor, format.name));
    actor.bare = line->bare;
    const std::string output = line->output.empty()
                                   ? std::filesystem::path(actor.path).stem().string() + format.suffix
                                   : line->output;
    format.write(actor, output);
    core::print_result(
        format.name != "submission"
            ? fmt::format("Wrote {}\n", output)
            : fmt::format(
                  "Wrote {}: submission.py and {}. To try it, copy both to agent/NAME of the competition's "
                  "repository\n",
                  output, std::filesystem::path(actor.path).filename().string()));
    return core::kExitDone;
  };
}

}  // namespace snake_ddp::app
