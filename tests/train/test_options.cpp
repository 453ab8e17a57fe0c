#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../io/temporary_folder.hpp"
#include "learners/registry.hpp"
#include "other_value.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/loop.hpp"
#include "train/options.hpp"

using namespace snake_ddp;

namespace {

using Settings = std::map<std::string, std::string>;

train::TrainOptions options_from(const Settings& settings) {
  train::TrainOptions options;
  const io::Fields fields = train::fields(options);
  for (const auto& [name, value] : settings) {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
    REQUIRE(field != fields.end());
    io::set_from_text(*field, value);
  }
  return options;
}

// Discards the output of a short run while this exists.
class Silence {
 public:
  Silence() : stdout_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
    ::close(nowhere);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    std::fflush(stdout);
    ::dup2(stdout_, STDOUT_FILENO);
    ::close(stdout_);
  }

 private:
  int stdout_;
};

const Settings kShort = {
    {"hidden_size", "8"},     {"batch_size", "16"},     {"num_envs", "2"}, {"max_episodes", "2"},
    {"episode_length", "20"}, {"buffer_size", "100"},   {"threads", "1"},  {"checkpoint_interval", "0"},
    {"rollout_steps", "8"},   {"sequence_length", "8"}, {"burn_in", "2"}};

// The fingerprint of a short run; "refused" if these settings contradict each other.
std::string outcome(const std::string& algo, const Settings& changes) {
  const io::TemporaryFolder folder;
  Settings settings = changes;
  settings.insert(kShort.begin(), kShort.end());
  settings.insert({"algo", algo});
  settings["runs_dir"] = folder.path().string();
  const train::TrainOptions options = options_from(settings);
  try {
    const Silence silence;
    train::run_training(options, {});
  } catch (const core::UsageError&) {
    return "refused";
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.path().filename() != "train.log") continue;
    std::ifstream log(entry.path());
    for (std::string line; std::getline(log, line);) {
      const std::size_t at = line.find("Fingerprint: ");
      if (at != std::string::npos) return line.substr(at);
    }
  }
  FAIL("a run without a fingerprint");
  return {};
}

bool is_refused(const std::string& algo, Settings settings) {
  std::vector<std::string> given;
  for (const auto& [name, value] : settings) given.push_back(name);
  settings.insert(kShort.begin(), kShort.end());
  settings.insert({"algo", algo});
  try {
    const train::TrainOptions options = options_from(settings);
    train::check_given(options, given);
    train::check_together(options);
    return false;
  } catch (const core::UsageError&) {
    return true;
  }
}

// A value other than that of `before`, which is kShort and `before`.
struct Change {
  std::string name, value;
  Settings before = {};
};

const std::vector<Change> kFelt = {{"buffer_size", "16"},
                                   {"updates_per_step", "0.5"},
                                   {"n_step", "3"},
                                   {"rollout_steps", "10"},
                                   {"rollout_epochs", "3"},
                                   // of all learners
                                   {"gamma", "0.5"},
                                   {"batch_size", "8"},
                                   {"lr_end", "0.5"},
                                   {"reward_scale", "2"},
                                   {"mask_fatal", "on"},
                                   {"epsilon_min", "0.1"}};

// Settings that the others need to have an effect.
const std::map<std::string, Settings> kBefore = {{"mirror_symmetric", {{"obs", "window"}}}};

// kFelt, and the flags that learners list.
std::vector<Change> felt() {
  std::vector<Change> all = kFelt;
  train::TrainOptions options = options_from(kShort);
  std::set<std::string> of_learners;
  for (const learners::LearnerEntry& learner : learners::registry())
    for (const io::Field& flag : learner.flags()) of_learners.insert(flag.name);
  for (const io::Field& field : train::fields(options)) {
    if (of_learners.count(field.name) == 0) continue;
    io::set(field, other_value(field));
    const auto before = kBefore.find(field.name);
    all.push_back({field.name, io::value_text(field), before == kBefore.end() ? Settings() : before->second});
  }
  return all;
}

// Felt by the learners that use it.
const Change kOwn = {"own_reward", "0.5"};

// Not visible in the weights of a run on the CPU, or only in the last bits of a team's sum: learners that do
// not use them must reject them.
const std::vector<Change> kRefused = {{"boards", "device"},
                                      {"cuda_graph", "on"},
                                      {"products", "tf32"},
                                      {kOwn.name, kOwn.value},
                                      {"eval_search", "look1", {{"reward", "score"}, {"eval_interval", "9"}}},
                                      {"tokens", "folder", {{"obs", "window"}, {"view_radius", "3"}}}};

}  // namespace

TEST_CASE("every setting is under one of the headings of --help", "[unit]") {
  train::TrainOptions options;
  std::vector<std::string> headings;
  for (const io::Field& field : train::fields(options)) {
    CAPTURE(field.name);
    CHECK(!field.help.empty());
    if (headings.empty() || headings.back() != field.group) headings.push_back(field.group);
  }
  CHECK(headings == std::vector<std::string>{"Running", "As in the Python trainer", "Learning", "Opponents",
                                             "Saving", "This machine"});
}

TEST_CASE("a setting makes a difference to the learners that it is for, and to no other", "[unit]") {
  train::TrainOptions options;
  const io::Fields fields = train::fields(options);
  std::map<std::string, std::set<std::string>> users;
  for (const learners::LearnerEntry& learner : learners::registry()) {
    for (const io::Field& f : fields) {
      if (f.used_by.empty() || std::count(f.used_by.begin(), f.used_by.end(), learner.name) > 0)
        users[f.name].insert(learner.name);
    }
  }
  std::set<std::string> shown_here;
  for (const learners::LearnerEntry& learner : learners::registry()) {
    std::map<Settings, std::string> before;
    for (const Change& change : felt()) {
      CAPTURE(learner.name, change.name, change.value);
      shown_here.insert(change.name);
      if (before.count(change.before) == 0) before[change.before] = outcome(learner.name, change.before);
      REQUIRE(before[change.before].starts_with("Fingerprint"));
      Settings changed = change.before;
      changed[change.name] = change.value;
      const std::string after = outcome(learner.name, changed);
      if (users[change.name].count(learner.name) > 0)
        CHECK((after != "refused" && after != before[change.before]));
      else
        CHECK((after == "refused" || after == before[change.before]));
    }
    for (const Change& change : kRefused) {
      CAPTURE(learner.name, change.name);
      shown_here.insert(change.name);
      Settings changed = change.before;
      changed[change.name] = change.value;
      CHECK(!is_refused(learner.name, change.before));
      CHECK(is_refused(learner.name, changed) == (users[change.name].count(learner.name) == 0));
    }
    CAPTURE(learner.name);
    if (users[kOwn.name].count(learner.name) > 0)
      CHECK(outcome(learner.name, {{kOwn.name, kOwn.value}}) != before.at(Settings()));
  }
  for (const io::Field& f : fields) {
    CAPTURE(f.name);
    CHECK((f.used_by.empty() || shown_here.count(f.name) > 0));
  }
}
