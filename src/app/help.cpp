#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "app/command_line.hpp"

namespace snake_ddp::app {
namespace {

constexpr std::size_t kUsual = 80, kLeast = 60, kMost = 100;  // columns
constexpr std::size_t kTexts = 27;                            // where the texts beside the names begin

std::size_t columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
}

// The words, and pieces of "a|b|c" that is wider than a line.
std::vector<std::string> pieces_of(const std::string& text, std::size_t room) {
  std::vector<std::string> pieces;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    while (word.size() > room) {
      const std::size_t bar = word.rfind('|', room - 1);
      if (bar == word.npos) break;
      pieces.push_back(word.substr(0, bar + 1));
      word.erase(0, bar + 1);
    }
    pieces.push_back(word);
  }
  return pieces;
}

// `begun` columns of the first line are used; the other lines begin with `indent` spaces.
std::string wrapped(const std::string& text, std::size_t begun, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t used = begun;
  for (const std::string& piece : pieces_of(text, width - indent)) {
    const bool first = used == indent || out.empty();
    if (!first && used + 1 + piece.size() > width) {
      out += "\n" + std::string(indent, ' ') + piece;
      used = indent + piece.size();
    } else {
      out += (first ? "" : " ") + piece;
      used += piece.size() + (first ? 0 : 1);
    }
  }
  return out + "\n";
}

std::string row(const std::string& name, const std::string& text, std::size_t width) {
  const std::string begin = "  " + name;
  if (text.empty()) return begin + "\n";
  if (begin.size() + 2 > kTexts)
    return begin + "\n" + std::string(kTexts, ' ') + wrapped(text, kTexts, kTexts, width);
  return fmt::format("{:<{}}{}", begin, kTexts, wrapped(text, kTexts, kTexts, width));
}

std::string name_of(const CLI::Option& option) {
  std::string name;
  if (!option.get_positional()) {
    for (const std::string& letter : option.get_snames()) name += "-" + letter + ", ";
    name += "--" + option.get_lnames().front();
    if (!option.get_option_text().empty() && option.get_option_text()[0] != '[') name += " ";
  }
  return name + option.get_option_text();
}

std::string footer_text(const std::string& footer, std::size_t width) {
  std::string text;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab != line.npos) {
      text += row(line.substr(0, tab), line.substr(tab + 1), width);
    } else {
      text += line.empty() || line[0] == ' ' ? line + "\n" : wrapped(line, 0, 0, width);
    }
  }
  return text;
}

}  // namespace

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const {
  const std::size_t width = columns();
  std::vector<const CLI::Option*> arguments;
  std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> groups;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) arguments.push_back(option);
    if (option->get_positional() || option == app->get_help_ptr() || !shows(*option)) continue;
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return group.first == option->get_group(); });
    if (known == groups.end())
      groups.push_back({option->get_group(), {option}});
    else
      known->second.push_back(option);
  }
  if (groups.empty()) groups.emplace_back("Options", 0);
  if (groups.size() > 1) groups.emplace_back("Help", 0);
  groups.back().second.push_back(app->get_help_ptr());

  const auto listed = [&](const std::vector<const CLI::Option*>& options) {
    std::string text;
    for (const CLI::Option* option : options) {
      std::string what = make_option_desc(option);
      if (const std::string usual = usual_value(*option); !usual.empty()) what += fmt::format(" [{}]", usual);
      text += row(name_of(*option), what, width);
    }
    return text;
  };

  const std::vector<const CLI::App*> commands = app->get_subcommands({});
  std::string usage = "Usage: " + name + (commands.empty() ? "" : " [COMMAND]");
  for (const CLI::Option* argument : arguments)
    usage += argument->get_required() ? " " + name_of(*argument) : fmt::format(" [{}]", name_of(*argument));
  std::string text = app->get_description();
  text[0] = static_cast<char>(std::toupper(text[0]));
  text = wrapped(text + ".", 0, 0, width) + "\n" + usage + " [FLAG ...]\n";
  if (!commands.empty()) text += "\nCommands:\n";
  for (const CLI::App* command : commands)
    text += row(command->get_name(), command->get_description(), width);
  if (!arguments.empty()) text += "\nArguments:\n" + listed(arguments);
  for (const auto& [heading, options] : groups)
    text += fmt::format("\n{}:\n{}", heading == "Options" ? "Flags" : heading, listed(options));
  const std::string footer = make_footer(app);
  return footer.empty() ? text : text + "\n" + footer_text(footer, width);
}

}  // namespace snake_ddp::app
