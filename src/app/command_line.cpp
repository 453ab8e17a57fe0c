#include "app/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "dist/build.hpp"
#include "dist/self_launch.hpp"
#include "dist/world.hpp"
#include "io/fields.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/run_signals.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::app {
namespace {

std::string with(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

std::vector<std::string> known_flags(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// Settings and names are exchanged between ranks and files as JSON, which is UTF-8.
void check_text(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (core::is_utf8(arguments[i])) continue;
    const bool of_flag = i > 0 && !arguments[i].starts_with("--") && arguments[i - 1].starts_with("--");
    throw core::UsageError(
        fmt::format("{}{}: not UTF-8; is it a path from a system with another encoding? "
                    "Rename it, or use a link with another name",
                    of_flag ? arguments[i - 1] + " " : "", core::as_utf8(arguments[i])));
  }
}

// The flags that arguments without one were probably meant for; empty if the command has none for them.
std::string meant_by(const std::string& command, const std::vector<std::string>& words) {
  const std::string& first = words.front();
  std::error_code none;
  const bool folder = std::filesystem::is_directory(first, none);
  const auto with_flag = [&](const char* flag) { return fmt::format("{} {}", flag, first); };
  if (command == "train" && first.ends_with(".pth")) return with_flag("--load_model");
  if (command == "train") return with_flag(folder ? "--resume" : "--config");
  if (command == "pretrain") return with_flag(first.ends_with(".json") ? "--config" : "--data_path");
  if (command == "export") return with_flag("--actor");
  if (command != "eval" && command != "play") return "";
  if (words.size() == 1) return with_flag("--team_a");
  if (words.size() == 2) return fmt::format("--team_a {} --team_b {}", first, words.back());
  return command == "eval" ? fmt::format("--ladder {}", fmt::join(words, " ")) : "";
}

// The message for the arguments that a command does not know.
std::string unknown_arguments(const CLI::App& command, const std::vector<std::string>& arguments) {
  const std::string name = arguments.front().substr(0, arguments.front().find('='));
  const std::size_t dashes = name.find_first_not_of('-');
  if (dashes == 0 || dashes == name.npos) {
    std::vector<std::string> words = arguments;
    std::erase_if(words, [](const std::string& word) { return word.starts_with('-'); });
    const std::string meant = words.empty() ? "" : meant_by(command.get_name(), words);
    return fmt::format("{}: unexpected argument \"{}\"{} See snake_ddp {} --help", command.get_name(),
                       arguments.front(), meant.empty() ? "." : fmt::format("; did you mean {}?", meant),
                       command.get_name());
  }
  const std::string near =
      io::did_you_mean(io::near_names(with(name.substr(dashes), '-', '_'), known_flags(command)), "--");
  return fmt::format("unknown flag {}{} All flags: snake_ddp {} --help", name, near.empty() ? "." : near,
                     command.get_name());
}

// `--flag=` as a flag and an empty value: CLI11 would take the next argument for the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> line;
  for (const std::string& argument : arguments) {
    const bool is_empty = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    line.push_back(is_empty ? argument.substr(0, argument.size() - 1) : argument);
    if (is_empty) line.emplace_back();
  }
  return line;
}

// `--load_model PATH` and `--load_model=PATH` as `--load_model_path PATH`: alone, or on or off, the flag is a switch.
void take_path_of_load_model(std::vector<std::string>& line) {
  for (std::size_t i = 1; i < line.size(); ++i) {
    const std::size_t name = std::min(line[i].find('='), line[i].size());
    if (with(line[i].substr(0, name), '-', '_') != "__load_model") continue;
    const bool has_path = name < line[i].size() ? !io::switch_value(line[i].substr(name + 1))
                                                : i + 1 < line.size() && !line[i + 1].starts_with('-');
    if (has_path) line[i].insert(name, line[i].find('_') < name ? "_path" : "-path");
  }
}

// `fields`: all but --config are settings, with checks of their own; some may be empty.
void refuse_empty_values(const CLI::App& command, bool fields) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.empty() && (!fields || option->get_name() == "--config"))
        throw core::UsageError(fmt::format(
            "{} \"\": give a value, or leave it out; an empty variable in a script?", option->get_name()));
}

constexpr const char* kFirstSteps = R"(Examples:
  snake_ddp train --config configs/champion.json    # train a strong team
  snake_ddp eval --team_a models/champion.pth --team_b territory
  snake_ddp help train                              # all flags of a command

Presets are in configs/ and trained teams in models/, of the sources and of the Python package.
)";

// For bash, and for zsh with its bashcompinit: commands, then flags; after a flag, files.
std::string completion_text(const CLI::App& program) {
  std::string text =
      R"([ -z "${ZSH_VERSION:-}" ] || { autoload -U +X compinit bashcompinit && compinit && bashcompinit; }
_snake_ddp() {
  local flags
  case "${COMP_WORDS[1]}" in
)";
  std::vector<std::string> commands;
  for (const CLI::App* command : program.get_subcommands({})) {
    commands.push_back(command->get_name());
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options())
      if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
    text += fmt::format("    {}) flags='{}' ;;\n", command->get_name(), fmt::join(names, " "));
  }
  return text + fmt::format(R"(    *) flags='{0}' ;;
  esac
  [ "$COMP_CWORD" -gt 1 ] || flags='{0}'
  COMPREPLY=($(compgen -W "$flags" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _snake_ddp snake_ddp ./snake_ddp
)",
                            fmt::join(commands, " "));
}

// What --help has after the flag.
const char* word_for(const io::Field& field) {
  if (std::holds_alternative<std::int64_t*>(field.target)) return "N";
  if (std::holds_alternative<double*>(field.target)) return "X";
  if (!field.choices.empty()) return "WORD";
  return field.name.ends_with("_dir") || field.name.ends_with("_path") ? "PATH" : "TEXT";
}

// The arguments with the command that they mean; empty for the help of a program that somebody starts in a terminal.
std::vector<std::string> full_line(const std::vector<std::string>& arguments,
                                   const std::vector<Command>& commands) {
  std::vector<std::string> line = with_empty_values(arguments);
  if (line.empty() && ::isatty(STDOUT_FILENO) == 1 && dist::this_world().alone() && dist::this_rank().empty())
    return {};
  if (!line.empty() && line[0] == "help") {
    line.erase(line.begin());
    line.insert(line.begin() + (line.empty() ? 0 : 1), "--help");
  }
  // Training is the default: flags without a command are its flags.
  constexpr std::array kOwnFlags = {"--help", "-h", "--version", "-V"};
  const bool own_flag =
      !line.empty() && std::find(kOwnFlags.begin(), kOwnFlags.end(), line[0]) != kOwnFlags.end();
  if (line.empty() || (line[0].rfind('-', 0) == 0 && !own_flag)) line.insert(line.begin(), "train");
  if (!own_flag && line[0].rfind('-', 0) != 0) {
    std::vector<std::string> names;
    for (const Command& c : commands) names.push_back(c.app->get_name());
    if (std::find(names.begin(), names.end(), line[0]) == names.end()) {
      const std::string near =
          line[0].ends_with(".json") ? "train --config " + line[0] : io::nearest_name(line[0], names);
      throw core::UsageError(fmt::format("unknown command \"{}\"{} The commands are {}", line[0],
                                         near.empty() ? "." : fmt::format("; did you mean {}?", near),
                                         fmt::join(names, ", ")));
    }
  }
  if (line[0] == "train") take_path_of_load_model(line);
  return line;
}

// Returns the exit code of --help and --version.
std::optional<int> parsed(CLI::App& program, std::vector<std::string> line) {
  std::reverse(line.begin(), line.end());  // CLI11 expects the last one first
  try {
    program.parse(line);
  } catch (const CLI::Success& e) {
    std::ostringstream text, none;
    const int code = program.exit(e, text, none);
    core::print_result(text.str());
    return code;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();  // "--gamma: 1 required  missing"
    const std::size_t at = text.find(": 1 required");
    throw core::UsageError(at == text.npos ? text : text.substr(0, at) + " needs a value; see --help");
  } catch (const CLI::RequiresError& e) {  // "--speed requires --watch"
    throw core::UsageError(fmt::format("{}: alone it has no effect", e.what()));
  } catch (const CLI::ParseError& e) {
    throw core::UsageError(e.what());
  }
  return std::nullopt;
}

}  // namespace

std::string both_spellings(const std::string& name) {
  const std::string dashed = with(name, '_', '-');
  return "--" + name + (dashed == name ? "" : ",--" + dashed);
}

void add_fields(CLI::App& command, const io::Fields& fields, Given& given) {
  for (const io::Field& field : fields) {
    const auto keep = [&given, name = field.name](const std::string& text) {
      given.emplace_back(name, text);
    };
    std::string text = field.help;
    if (!field.choices.empty()) text += fmt::format(" ({})", fmt::join(field.choices, "|"));
    if (!field.used_by.empty()) text += fmt::format(" {{{}}}", fmt::join(field.used_by, ", "));
    const std::string help = text;  // a string that is not const would be the flag's target
    // `--load_model` switches on; `--load_model=off` switches off what a configuration file has on.
    CLI::Option* option =
        std::holds_alternative<bool*>(field.target)
            ? command.add_flag(both_spellings(field.name), help)->each(keep)
            : command.add_option_function<std::string>(both_spellings(field.name), keep, help)
                  ->option_text(word_for(field));
    option->take_last()->default_str(io::value_text(field));
    if (!field.group.empty()) option->group(field.group);
  }
}

void apply_given(const io::Fields& fields, const Given& given) {
  for (const auto& [name, text] : given) {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
    io::set_from_text(*field, text);
  }
}

std::vector<Command> add_commands(CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* help, const auto& make, const char* example) {
    CLI::App* app = program.add_subcommand(name, help);
    app->allow_extras();
    commands.push_back({app, make(*app)});
    const std::string more = app->get_footer();
    app->footer(fmt::format("{}{}Example:\n  {}\n", more, more.empty() ? "" : "\n", example));
  };
  const auto with_line = [&](Action (*make)(CLI::App&, const std::vector<std::string>&)) {
    return [&, make](CLI::App& app) { return make(app, arguments); };
  };
  add("train", "train a team (the default command)", with_line(add_train),
      "snake_ddp train --config configs/champion.json --max_minutes 20");
  add("eval", "play games between teams and report who wins", add_eval,
      "snake_ddp eval --team_a models/champion.pth --team_b territory");
  add("pretrain", "train the tokenizer and the mask predictor on recorded games", with_line(add_pretrain),
      "snake_ddp pretrain --stage tokenizer --data_path boards");
  add("replay", "show a recorded game, in a web page or in the terminal", add_replay,
      "snake_ddp replay game_0.json --html game.html");
  add("play", "play against a team in the terminal", add_play, "snake_ddp play --team_b models/champion.pth");
  add("report", "write a page about training runs", add_report,
      "snake_ddp report runs/snakes_3v3/run1_* --html report.html");
  add("verify-trace", "replay recorded games and compare every state", add_verify_trace,
      "snake_ddp verify-trace games.jsonl.gz");
  add("export", "export an actor as a submission, TorchScript or safetensors", add_export,
      "snake_ddp export --actor models/champion.pth --format submission");
  add("info", "show versions and devices, or what a run or weights file contains", add_info,
      "snake_ddp info models/champion.pth");
  add(
      "completion", "print a script that completes commands and flags",
      [&](CLI::App& app) {
        const auto shell = std::make_shared<std::string>();
        app.add_option("SHELL", *shell, "bash or zsh")
            ->required()
            ->check(CLI::IsMember({"bash", "zsh"}))
            ->option_text("SHELL");
        return Action([&program, shell] {
          core::print_result(completion_text(program));
          return static_cast<int>(core::kExitDone);
        });
      },
      "eval \"$(snake_ddp completion bash)\"");
  return commands;
}

int run_command_line(const std::vector<std::string>& arguments) {
  check_text(arguments);
  CLI::App program("distributed trainer for the game snakes 3v3", "snake_ddp");
  program.formatter(std::make_shared<Help>());  // of all commands, too
  program.set_help_flag("-h,--help", "print this help, then exit");
  program.set_version_flag("-V,--version", dist::version_text(), "print the versions, then exit");
  program.require_subcommand(0, 1);
  program.fallthrough(false);
  const std::vector<Command> commands = add_commands(program, arguments);
  program.footer(kFirstSteps);  // last: commands would inherit it

  const std::vector<std::string> line = full_line(arguments, commands);
  if (line.empty()) {
    core::print_result(program.help());
    return core::kExitDone;
  }
  if (const std::optional<int> code = parsed(program, line)) return *code;
  for (const Command& c : commands) {
    if (!c.app->parsed()) continue;
    const std::vector<std::string> rest = c.app->remaining();
    if (!rest.empty()) throw core::UsageError(unknown_arguments(*c.app, rest));
    const std::string name = c.app->get_name();
    const bool trains = name == "train" || name == "pretrain";
    refuse_empty_values(*c.app, trains);
    // Other commands have nothing to save: a signal ends them.
    if (!trains && name != "eval") core::release_run_signals();
    return c.action();
  }
  return core::kExitDone;
}

void only_with(CLI::App& command, const std::string& flag, const std::string& other) {
  command.get_option(flag)->needs(command.get_option(other));
}

void refuse_to_replace(const std::string& input, const std::string& output, const char* flag) {
  std::error_code error;  // of a file that does not exist yet
  if (std::filesystem::equivalent(input, output, error))
    throw core::UsageError(fmt::format("{} {}: this is the input file; give another name", flag, output));
}

void add_own_ranks(CLI::App& command, OwnRanks& ranks) {
  command.add_flag("--ddp", ranks.ddp, "start --world_size ranks on this machine without torchrun");
  command.add_option("--world_size,--world-size", ranks.world_size, "ranks that --ddp starts")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
}

void check_own_ranks(const OwnRanks& ranks) {
  if (!ranks.ddp && ranks.world_size > 0)
    throw core::UsageError("--world_size is for --ddp; under torchrun it comes from --nproc_per_node");
  if (ranks.ddp && ranks.world_size == 0) throw core::UsageError("--ddp needs --world_size");
}

std::optional<int> start_own_ranks(const OwnRanks& ranks, const std::vector<std::string>& arguments) {
  if (!ranks.ddp || dist::is_own_rank()) return std::nullopt;
  const dist::World world = dist::launcher_world();
  if (!world.alone()) {
    if (world.size == ranks.world_size) return std::nullopt;  // one of those ranks
    throw core::UsageError(
        fmt::format("--ddp --world_size {}: this process is already one of the {} of {}; leave --ddp out",
                    ranks.world_size, core::counted(world.size, "rank"),
                    world.launcher == dist::Launcher::kSlurm ? "srun" : "another launcher"));
  }
  if (!dist::this_rank().empty())
    core::tell_error(
        "--ddp: RANK and WORLD_SIZE are set in this shell; the ranks started here get their own");
  std::vector<std::string> again = {"snake_ddp"};
  again.insert(again.end(), arguments.begin(), arguments.end());
  return dist::launch_local_ranks(ranks.world_size, again);
}

}  // namespace snake_ddp::app
