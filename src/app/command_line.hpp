// From argv to a subcommand: the table of all subcommands, each of which has its own file.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "io/fields.hpp"

namespace snake_ddp::app {

/// Runs the command in `arguments` (argv without the program's name).
/// Returns  the exit code of a run that ended normally.
/// Throws   core::Error of each kind.
int run_command_line(const std::vector<std::string>& arguments);

/// Adds a flag for each field: `--max_episodes` and `--max-episodes` alike. The flags on the command line are kept in
/// `given`, name and text, and set by `apply_given`, so that a configuration file can be read first.
using Given = std::vector<std::pair<std::string, std::string>>;
void add_fields(CLI::App& command, const io::Fields& fields, Given& given);
void apply_given(const io::Fields& fields, const Given& given);

/// The greatest number of games and of a seed.
inline constexpr std::int64_t kMostCount = std::int64_t{1} << 40, kMostSeed = 4'000'000'000'000'000'000;

/// "--world_size,--world-size"
std::string both_spellings(const std::string& name);

/// Adds a flag for a number from `least` to `most`; its help shows the default.
template <class Number>
void add_number(CLI::App& command, const std::string& name, Number& value, const std::string& help,
                std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
  command.add_option(both_spellings(name), value, help)
      ->check(CLI::Range(least, most))
      ->check([](const std::string& text) {  // NaN is neither below nor above a range
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is not a number" : std::string();
      })
      ->capture_default_str()
      ->option_text(std::is_integral_v<Number> ? "N" : "X");
}

/// Without `other`, `flag` would have no effect: then it is an error.
void only_with(CLI::App& command, const std::string& flag, const std::string& other);

/// Throws  UsageError if `output`, the value of `flag`, is the file that the command reads.
void refuse_to_replace(const std::string& input, const std::string& output, const char* flag);

/// A subcommand: adds its flags to `command` and returns the function to run once they are parsed. `arguments` are
/// the whole line, for commands that start themselves again.
using Action = std::function<int()>;
Action add_train(CLI::App& command, const std::vector<std::string>& arguments);
Action add_pretrain(CLI::App& command, const std::vector<std::string>& arguments);
Action add_eval(CLI::App& command);
Action add_info(CLI::App& command);
Action add_replay(CLI::App& command);
Action add_play(CLI::App& command);
Action add_report(CLI::App& command);
Action add_verify_trace(CLI::App& command);
Action add_export(CLI::App& command);

struct Command {
  CLI::App* app;
  Action action;
};
/// Adds all of them to `program`, which they need, as `arguments`, until they end.
std::vector<Command> add_commands(CLI::App& program, const std::vector<std::string>& arguments);

/// The text of --help. Arguments, then flags by group, each with its first spelling, what it takes
/// (CLI::Option::option_text), what it does and its default; then the footer. Wrapped at the terminal's width, or at 80 columns.
/// A footer's paragraphs are wrapped, lines that begin with a space are not, and of a line "NAME<tab>text" the text is wrapped
/// beside the name.
class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 protected:
  [[nodiscard]] virtual bool shows(const CLI::Option& /*option*/) const { return true; }
  [[nodiscard]] virtual std::string usual_value(const CLI::Option& option) const {
    return option.get_default_str();
  }
};

struct OwnRanks {
  bool ddp = false;
  int world_size = 0;
};

/// --ddp, --world_size. `ranks` must outlive the command.
void add_own_ranks(CLI::App& command, OwnRanks& ranks);

/// Throws  UsageError if the flags contradict each other.
void check_own_ranks(const OwnRanks& ranks);

/// If --ddp is given and this process is not one of its ranks, starts them, waits for them, and returns their exit
/// code. `arguments` are the whole line.
/// Throws  UsageError among several ranks of torchrun, srun or MPI; DistError as launch_local_ranks.
std::optional<int> start_own_ranks(const OwnRanks& ranks, const std::vector<std::string>& arguments);

}  // namespace snake_ddp::app
