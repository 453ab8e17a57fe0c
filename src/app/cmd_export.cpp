#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "snake_ddp/app/actor_export.hpp"
#include "snake_ddp/app/command_line.hpp"
#include "snake_ddp/base/console.hpp"
#include "snake_ddp/base/error.hpp"

namespace snake_ddp::app {
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ExportFormat& format : export_formats()) names.push_back(format.name);
  return names;
}

const ExportFormat& format_of(const std::string& name) {
  for (const ExportFormat& format : export_formats()) {
    if (format.name == name) return format;
  }
  const std::string near = config::nearest_name(name, format_names());
  throw base::UsageError(fmt::format("--format {}: the formats are {}{}", name,
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
  command.add_option(
      "--actor", line->actor,
      "an actor_*.pth, or PATH:argmax for a submission that plays the most probable moves; PATH:softmax or "
      "PATH:tanh if nothing beside the file says its last layer");
  command.add_option("--format", line->format, fmt::format("{}", fmt::join(format_names(), "|")));
  command.add_option(
      "--output", line->output,
      "file or, for submission, folder to write [named after the actor, in the current folder]");
  command.add_option("--output_activation,--output-activation", line->output_activation,
                     "softmax or tanh [as the file's record or its run's settings say]");
  command.add_flag("--mask_fatal,--mask-fatal", line->mask_fatal,
                   "make a submission that avoids moves that are certain death; a Q-network's always does");
  command.add_flag("--bare", line->bare,
                   "make a submission that plays the network's own moves; a Q-network's otherwise searches");
  return [line]() -> int {
    if (line->actor.empty() || line->format.empty())
      throw base::UsageError("export needs --actor and --format");
    const ExportFormat& format = format_of(line->format);
    if ((line->bare || line->mask_fatal) && format.name != "submission")
      throw base::UsageError(fmt::format("{} is for --format submission, not {}",
                                         line->bare ? "--bare" : "--mask_fatal", format.name));
    ActorFile actor = read_actor(line->actor, line->output_activation, line->mask_fatal);
    if (format.name != "submission" && actor.spec != line->actor)
      throw base::UsageError(
          fmt::format("--actor {}: :argmax is for --format submission; {} files return "
                      "what the network computes and leave the choice to their reader",
                      line->actor, format.name));
    actor.bare = line->bare;
    const std::string output = line->output.empty()
                                   ? std::filesystem::path(actor.path).stem().string() + format.suffix
                                   : line->output;
    format.write(actor, output);
    base::print_result(fmt::format("Wrote {}\n", output));
    return base::kExitDone;
  };
}

}  // namespace snake_ddp::app
