// Rewrites the tables in the reference's pages, what is between `<!-- table NAME -->` and `<!-- end -->`, from the tables that the
// program itself uses: build/release/dev/reference/reference docs/reference
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/command_line.hpp"
#include "io/atomic_file.hpp"
#include "io/fields.hpp"
#include "io/folders.hpp"
#include "io/run_folder.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "pretrain/options.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/game/observation.hpp"
#include "snake_ddp/game/opponents.hpp"
#include "snake_ddp/play/deaths.hpp"
#include "train/options.hpp"
#include "train/tags.hpp"

namespace {

using namespace snake_ddp;

using Names = std::vector<std::string>;

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

std::string code_list(const Names& names) { return code(fmt::format("{}", fmt::join(names, "`, `"))); }

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

std::string row(const Names& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }

std::string heading(const Names& cells) {
  return row(cells) + fmt::format("|{}\n", fmt::join(Names(cells.size(), "---|"), ""));
}

// A flag's names but for the second spelling, with dashes; of an argument without a flag, its name.
Names spellings(const CLI::Option& option) {
  const Names& all = option.get_lnames();
  Names names;
  for (const std::string& name : all) {
    std::string other = name;
    std::replace(other.begin(), other.end(), '-', '_');
    if (other == name || std::find(all.begin(), all.end(), other) == all.end()) names.push_back("--" + name);
  }
  return names.empty() ? Names{option.get_name(/*positional=*/true)} : names;
}

std::string default_text(const std::string& value) {
  return value.empty() ? "–" : value.find(' ') == value.npos ? code(value) : prose(value);
}

// Default and meaning, where the help text may name the default in brackets.
Names cells_of(const CLI::Option& option) {
  std::string help = option.get_description(), value = option.get_default_str();
  const std::size_t from = help.find(" ["), to = help.find(']', from);
  if (from != help.npos && to != help.npos) {
    if (value.empty()) value = help.substr(from + 2, to - from - 2);
    help.erase(from, to + 1 - from);
  }
  const bool is_switch = option.get_items_expected_min() == 0 && !option.get_lnames().empty();
  return {default_text(value.empty() && is_switch ? "off" : value), prose(help)};
}

// Settings, and who may read them, learners or stages; nobody: there is no column for them.
struct Settings {
  io::Fields fields = {};
  std::string title = {};
  Names users = {};
};

// Default, meaning and readers. A learner may have a default of its own.
Names cells_of(const Settings& settings, std::size_t at) {
  const io::Field& field = settings.fields[at];
  std::string value = default_text(io::value_text(field)), text = prose(field.help);
  Names others;
  for (const std::string& user : settings.users) {
    if (!io::is_used(field, user)) {
      others.push_back(user);
    } else if (learners::is_learner(user) && field.name != "algo") {
      train::TrainOptions options = train::usual_options(user);
      if (const std::string own = io::value_text(train::fields(options)[at]); own != io::value_text(field))
        value += fmt::format("; with {}: {}", code(user), code(own));
    }
  }
  if (field.choices.size() > 1) text += fmt::format(" ({})", code_list(field.choices));
  return {value, text,
          others.empty()                         ? "all"
          : others.size() < field.used_by.size() ? "all but " + code_list(others)
                                                 : code_list(field.used_by)};
}

// The options of a command, or of one group of them.
std::string flag_table(const CLI::App& command, const Settings& settings, const std::string& group = "") {
  Names titles = {"flag", "default", "meaning"};
  if (!settings.users.empty()) titles.push_back(settings.title);
  std::string table = heading(titles);
  for (const CLI::Option* option : command.get_options()) {
    const Names names = spellings(*option);
    if (names.front() == "--help" || (!group.empty() && option->get_group() != group)) continue;
    const auto field = std::find_if(settings.fields.begin(), settings.fields.end(),
                                    [&](const io::Field& f) { return "--" + f.name == names.front(); });
    Names cells = field == settings.fields.end()
                      ? cells_of(*option)
                      : cells_of(settings, static_cast<std::size_t>(field - settings.fields.begin()));
    cells.insert(cells.begin(), code_list(names));
    cells.resize(titles.size(), "all");
    table += row(cells);
  }
  return table;
}

// The tensors of a file, layers and norms by the names of their weight and bias. Sizes are in features D and hidden units H.
Names tensors_of(const nets::NamedTensors& file, std::int64_t features, std::int64_t hidden) {
  const std::pair<std::int64_t, const char*> known[] = {
      {features, "D"},    {features + 4, "D + 4"}, {3 * (features + 1), "3 (D + 1)"},
      {hidden, "H"},      {2 * hidden, "2 H"},     {3 * hidden, "3 H"},
      {4 * hidden, "4 H"}};
  const auto text = [&](std::int64_t size) {
    for (const auto& [number, name] : known)
      if (size == number) return std::string(name);
    return std::to_string(size);
  };
  constexpr std::string_view kWeight = ".weight", kBias = ".bias";
  std::map<std::string, std::int64_t> biases;  // sizes by layer
  for (const auto& [name, tensor] : file)
    if (name.ends_with(kBias)) biases[name.substr(0, name.size() - kBias.size())] = tensor.size(0);
  Names out;
  for (const auto& [name, tensor] : file) {
    const std::string layer = name.substr(0, name.rfind('.'));
    const auto bias = biases.find(layer);
    const bool is_whole =
        bias != biases.end() && bias->second == nets::find(file, layer + ".weight")->size(0);
    if (is_whole && name.ends_with(kBias)) continue;
    Names sizes;
    for (const std::int64_t n : tensor.sizes()) sizes.push_back(text(n));
    out.push_back(fmt::format("{} [{}]", code(is_whole && name.ends_with(kWeight) ? layer : name),
                              fmt::join(sizes, ", ")));
  }
  return out;
}

// What a learner saves in one of its files; what only `with_norm` has is named after the rest.
std::string tensor_text(const learners::LearnerOptions& options, const nets::NamedTensors& file,
                        const nets::NamedTensors& with_norm) {
  const Names always = tensors_of(file, options.features, options.hidden_size);
  Names norms = tensors_of(with_norm, options.features, options.hidden_size);
  std::erase_if(norms, [&](const std::string& tensor) {
    return std::find(always.begin(), always.end(), tensor) != always.end();
  });
  std::string text = fmt::format("{}", fmt::join(always, ", "));
  if (!norms.empty()) text += fmt::format("; with `--layer_norm` {}", fmt::join(norms, ", "));
  return text;
}

// What each learner saves. Learners with equal files share a row.
std::string weight_table() {
  std::map<std::pair<std::string, std::string>, Names> learners_by_file;
  std::vector<std::pair<std::string, std::string>> files;  // in the learners' order
  for (const learners::LearnerEntry& entry : learners::registry()) {
    learners::LearnerOptions options;
    static_cast<learners::LearnerFlags&>(options) = train::usual_options(entry.name);
    options.algo = entry.name;
    options.features = game::kMaxObsSize;
    options.mirror_symmetric = options.layer_norm = false;
    const std::unique_ptr<learners::Learner> plain = learners::make_learner(options);
    options.layer_norm = true;
    const std::unique_ptr<learners::Learner> normed = learners::make_learner(options);
    const std::string actor = tensor_text(options, plain->exported_actor(), normed->exported_actor()),
                      critic = tensor_text(options, plain->exported_critic(), normed->exported_critic());
    std::vector<std::pair<std::string, std::string>> own = {{"actor", actor}, {"critic", critic}};
    if (actor == critic) own = {{"actor, critic", actor}};
    for (const auto& file : own) {
      if (!learners_by_file.contains(file)) files.push_back(file);
      learners_by_file[file].push_back(entry.name);
    }
  }
  std::string table = heading({"learner", "file", "tensors"});
  for (const auto& file : files) table += row({code_list(learners_by_file[file]), file.first, file.second});
  return table;
}

std::map<std::string, std::string> all_tables(const CLI::App& program) {
  std::map<std::string, std::string> tables;
  train::TrainOptions options;
  pretrain::PretrainOptions stage;
  Settings training{train::fields(options), "learners"};
  for (const learners::LearnerEntry& entry : learners::registry()) training.users.push_back(entry.name);
  for (const CLI::App* command : program.get_subcommands({})) {
    const std::string name = command->get_name();
    if (name == "train")
      for (const std::string& group : command->get_groups())
        tables["train: " + group] = flag_table(*command, training, group);
    else if (name == "pretrain")
      tables[name] =
          flag_table(*command, {pretrain::fields(stage), "stages", {"tokenizer", "mask_predictor"}});
    else
      tables[name] = flag_table(*command, {});
  }
  const auto list = [&](const char* name, const Names& titles, const auto& entries, const auto& cells) {
    std::string& table = tables[name] = heading(titles);
    for (const auto& entry : entries) table += row(cells(entry));
  };
  list("tags", {"tag", "what"}, train::kTags, [](const train::TagEntry& tag) {
    return Names{code(tag.name), prose(std::string(tag.what))};
  });
  list("run folder", {"file", "what"}, io::kRunFiles, [](const io::RunFile& file) {
    return Names{code(file.name), prose(std::string(file.what))};
  });
  list("exit codes", {"code", "when"}, core::kExitCodes, [](const core::ExitCodeEntry& exit) {
    return Names{std::to_string(exit.code), prose(exit.when)};
  });
  list("scripted teams", {"team", "what it does"}, game::kOpponents, [](const game::OpponentEntry& team) {
    return Names{code(team.name), std::string(team.rule)};
  });
  list("deaths", {"cause", "group", "what"}, play::kDeaths, [](const play::DeathEntry& death) {
    return Names{code(death.name), code(death.group), std::string(death.text)};
  });
  tables["weights"] = weight_table();
  return tables;
}

// Throws  FileError for a name that it does not know, and for a table that no page has.
void write_reference(const CLI::App& program, const std::string& folder) {
  constexpr std::string_view kBegin = "<!-- table ", kBeginEnd = " -->\n", kEnd = "<!-- end -->";
  const std::map<std::string, std::string> tables = all_tables(program);
  auto missing = tables;
  for (const std::string& file : io::names_in(folder)) {
    const std::string path = fmt::format("{}/{}", folder, file), page = io::read_file(path);
    std::string out;
    for (std::size_t at = 0, begin; at != page.npos; at = begin) {
      begin = page.find(kBegin, at + 1);
      std::string_view part = std::string_view(page).substr(at, begin - at);
      if (part.starts_with(kBegin)) {
        const std::size_t named = part.find(kBeginEnd), end = part.find(kEnd);
        if (named == part.npos || end == part.npos)
          throw core::FileError(fmt::format("{}: a table without its \"{}\"", path, kEnd));
        const std::string name(part.substr(kBegin.size(), named - kBegin.size()));
        const auto table = tables.find(name);
        if (table == tables.end())
          throw core::FileError(fmt::format("{}: there is no table \"{}\"", path, name));
        out += fmt::format("{}{}{}\n{}\n", kBegin, name, kBeginEnd, table->second);
        part.remove_prefix(end);
        missing.erase(name);
      }
      out += part;
    }
    if (out != page) io::write_file_atomically(path, out);
  }
  if (!missing.empty())
    throw core::FileError(
        fmt::format("{}: no page has \"{}{}{}\"", folder, kBegin, missing.begin()->first, " -->"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw core::UsageError("reference needs the folder of its pages, docs/reference");
    CLI::App program("", "snake_ddp");
    const std::vector<std::string> none;
    const std::vector<app::Command> commands = app::add_commands(program, none);
    write_reference(program, argv[1]);
    return core::kExitDone;
  } catch (const core::Error& e) {
    core::tell_error(e.what());
    return e.exit_code();
  } catch (const std::exception& e) {
    core::tell_error(e.what());
    return core::kExitBug;
  }
}
