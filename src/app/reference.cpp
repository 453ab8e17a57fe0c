#include "app/reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/fields.hpp"
#include "io/folders.hpp"
#include "io/run_folder.hpp"
#include "learners/registry.hpp"
#include "pretrain/options.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/deaths.hpp"
#include "train/options.hpp"
#include "train/tags.hpp"

namespace snake_ddp::app {
namespace {

using Names = std::vector<std::string>;
using Tables = std::map<std::string, std::string, std::less<>>;

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

std::string code_list(const Names& names) {
  Names quoted;
  for (const std::string& name : names) quoted.push_back(code(name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

// A help text as Markdown, with flags, file names and the like as code.
std::string prose(const std::string& text) {
  constexpr std::string_view kBefore = "(\"'", kAfter = ",.;:)\"'";
  const auto is_code = [](std::string_view word) {
    return word.starts_with("--") || word.find_first_of("_<*={") != word.npos ||
           word.substr(0, word.size() - 1).find(':') != word.npos;
  };
  std::string out;
  std::istringstream words(text);
  for (std::string word, more; words >> word;) {
    while ((word == "--obs" || word == "snake_ddp" ||
            std::count(word.begin(), word.end(), '<') > std::count(word.begin(), word.end(), '>')) &&
           words >> more)
      word += " " + more;
    const std::size_t from = std::min(word.find_first_not_of(kBefore), word.size());
    const std::size_t to = std::max(word.find_last_not_of(kAfter) + 1, from);
    const std::string inner = word.substr(from, to - from);
    out += (out.empty() ? "" : " ") + word.substr(0, from) +
           (!inner.empty() && is_code(inner) ? code(inner) : inner) + word.substr(to);
  }
  for (std::size_t at = 0; (at = out.find('|', at)) != out.npos; at += 2) out.insert(at, "\\");
  return out;
}

class Table {
 public:
  explicit Table(const Names& heads) {
    add(heads);
    text_ += fmt::format("|{}\n", fmt::join(Names(heads.size(), "---|"), ""));
  }
  void add(const Names& cells) { text_ += fmt::format("| {} |\n", fmt::join(cells, " | ")); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A flag's names but for the second spelling, with dashes; without flags, the name of a positional argument.
Names spellings(const CLI::Option& option) {
  const std::vector<std::string>& all = option.get_lnames();
  Names names;
  for (const std::string& name : all) {
    std::string other = name;
    std::replace(other.begin(), other.end(), '-', '_');
    const bool is_second = other != name && std::find(all.begin(), all.end(), other) != all.end();
    if (!is_second) names.push_back("--" + name);
  }
  return names.empty() ? Names{option.get_name(/*positional=*/true)} : names;
}

// A help text and the default that it names in brackets.
std::pair<std::string, std::string> split_default(std::string help) {
  const std::size_t from = help.find(" ["), to = help.find(']', from);
  if (from == help.npos || to == help.npos) return {help, ""};
  const std::string usual = help.substr(from + 2, to - from - 2);
  return {help.erase(from, to + 1 - from), usual};
}

std::string default_cell(const std::string& usual) {
  return usual.empty() ? "–" : usual.find(' ') == std::string::npos ? code(usual) : prose(usual);
}

struct Settings {
  io::Fields fields;
  std::string users;  // heading of the column with those that read a field; empty: no such column
  Names all_users;
  std::map<std::string, std::map<std::string, Names>> other_defaults;  // [field][value]: users
};

std::string default_cell(const io::Field& field, const Settings& settings) {
  std::string cell = default_cell(io::value_text(field));
  if (const auto other = settings.other_defaults.find(field.name); other != settings.other_defaults.end())
    for (const auto& [value, users] : other->second)
      cell += fmt::format("; with {}: {}", code_list(users), code(value));
  return cell;
}

// Of those that read the field, or of those that do not, whichever are fewer.
std::string users_cell(const io::Field& field, const Names& all) {
  Names others;
  for (const std::string& name : all)
    if (!io::is_used(field, name)) others.push_back(name);
  if (others.empty()) return "all";
  return others.size() < field.used_by.size() ? "all but " + code_list(others) : code_list(field.used_by);
}

std::string choices_text(const Names& choices) {
  return choices.size() < 2 ? "" : fmt::format(" ({})", code_list(choices));
}

// The options of a command, or of one group of them.
std::string flag_table(const CLI::App& command, const Settings& settings, const std::string& group = "") {
  Names heads{"flag", "default", "meaning"};
  if (!settings.users.empty()) heads.push_back(settings.users);
  Table table(heads);
  for (const CLI::Option* option : command.get_options()) {
    const Names names = spellings(*option);
    if (names.front() == "--help" || (!group.empty() && option->get_group() != group)) continue;
    const auto field = std::find_if(settings.fields.begin(), settings.fields.end(),
                                    [&](const io::Field& f) { return "--" + f.name == names.front(); });
    Names cells{code_list(names)};
    if (field != settings.fields.end()) {
      cells.push_back(default_cell(*field, settings));
      cells.push_back(prose(field->help) + choices_text(field->choices));
    } else {
      auto [help, usual] = split_default(option->get_description());
      if (!option->get_default_str().empty()) usual = option->get_default_str();
      if (usual.empty() && option->get_items_expected_min() == 0 && names.front().starts_with("--"))
        usual = "off";
      cells.push_back(default_cell(usual));
      cells.push_back(prose(help));
    }
    if (!settings.users.empty())
      cells.push_back(field == settings.fields.end() ? "all" : users_cell(*field, settings.all_users));
    table.add(cells);
  }
  return table.text();
}

Settings settings_of_training(train::TrainOptions& options) {
  Settings settings{train::fields(options), "learners", {}, {}};
  for (const learners::LearnerEntry& entry : learners::registry()) {
    settings.all_users.push_back(entry.name);
    train::TrainOptions own = train::usual_options(entry.name);
    for (const io::Field& field : train::fields(own)) {
      const auto usual = std::find_if(settings.fields.begin(), settings.fields.end(),
                                      [&](const io::Field& f) { return f.name == field.name; });
      const std::string value = io::value_text(field);
      if (field.name != "algo" && io::is_used(field, entry.name) && value != io::value_text(*usual))
        settings.other_defaults[field.name][value].push_back(entry.name);
    }
  }
  return settings;
}

Tables all_tables(const CLI::App& program) {
  Tables tables;
  train::TrainOptions options;
  const Settings training = settings_of_training(options);
  pretrain::PretrainOptions stage;
  const Settings stages{pretrain::fields(stage), "stages", {"tokenizer", "mask_predictor"}, {}};
  for (const CLI::App* command : program.get_subcommands({})) {
    const std::string name = command->get_name();
    if (name == "train")
      for (const io::Field& field : training.fields)
        tables.try_emplace("train: " + field.group, flag_table(*command, training, field.group));
    else
      tables[name] = flag_table(*command, name == "pretrain" ? stages : Settings{});
  }
  const auto list = [&](const std::string& name, const Names& heads, const auto& entries, const auto& cells) {
    Table table(heads);
    for (const auto& entry : entries) table.add(cells(entry));
    tables[name] = table.text();
  };
  list("tags", {"tag", "what"}, train::kTags, [](const train::TagEntry& tag) {
    return Names{code(tag.name), prose(std::string(tag.what))};
  });
  list("run folder", {"file", "what"}, io::kRunFiles, [](const io::RunFile& file) {
    return Names{code(file.name), prose(std::string(file.what))};
  });
  list("exit codes", {"code", "when"}, core::kExitCodes, [](const core::ExitCodeEntry& exit) {
    return Names{fmt::format("{}", static_cast<int>(exit.code)), prose(exit.when)};
  });
  list("scripted teams", {"team", "what it does"}, game::kOpponents, [](const game::OpponentEntry& entry) {
    return Names{code(entry.name), std::string(entry.rule)};
  });
  list("deaths", {"cause", "group", "what"}, play::kDeaths, [](const play::DeathEntry& death) {
    return Names{code(death.name), code(death.group), std::string(death.text)};
  });
  return tables;
}

}  // namespace

void write_reference(const CLI::App& program, const std::string& folder) {
  constexpr std::string_view kBegin = "<!-- table ", kBeginEnd = " -->\n", kEnd = "<!-- end -->";
  const Tables tables = all_tables(program);
  std::set<std::string> missing;
  for (const auto& [name, text] : tables) missing.insert(name);
  for (const std::string& file : io::names_in(folder)) {
    if (!file.ends_with(".md")) continue;
    const std::string path = fmt::format("{}/{}", folder, file), page = io::read_file(path);
    std::string out;
    for (std::size_t at = 0;;) {
      const std::size_t begin = page.find(kBegin, at);
      out += page.substr(at, begin - at);
      if (begin == page.npos) break;
      const std::size_t named = page.find(kBeginEnd, begin), end = page.find(kEnd, begin);
      if (named == page.npos || end == page.npos)
        throw core::FileError(fmt::format("{}: a table without its \"{}\"", path, kEnd));
      const std::string name = page.substr(begin + kBegin.size(), named - begin - kBegin.size());
      const auto table = tables.find(name);
      if (table == tables.end())
        throw core::FileError(fmt::format("{}: there is no table \"{}\"", path, name));
      out += fmt::format("{}{}{}\n{}\n", kBegin, name, kBeginEnd, table->second);
      missing.erase(name);
      at = end;
    }
    if (out != page) io::write_file_atomically(path, out);
  }
  if (!missing.empty())
    throw core::FileError(fmt::format("{}: no page has \"<!-- table {} -->\"", folder, *missing.begin()));
}

}  // namespace snake_ddp::app
