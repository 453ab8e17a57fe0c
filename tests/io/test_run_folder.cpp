#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>
#include <regex>
#include <set>
#include <thread>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/run_folder.hpp"
#include "refusals.hpp"
#include "temporary_folder.hpp"

namespace snake_ddp::io {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

void put_weights(const fs::path& run, int episode, bool with_critic = true) {
  fs::create_directories(run / "trained_model");
  const std::string end = "_" + std::to_string(episode) + ".pth";
  io::write_file_atomically((run / "trained_model" / ("actor" + end)).string(), "");
  if (with_critic) io::write_file_atomically((run / "trained_model" / ("critic" + end)).string(), "");
}

TEST_CASE("a run's folder is named by number and time and contains a folder for weights", "[unit]") {
  const TemporaryFolder folder;
  const RunFolder run = create_run_folder(folder / "runs", "snakes_3v3");
  CHECK(run.number == 1);
  CHECK(fs::is_directory(run.path + "/trained_model"));
  CHECK(fs::path(run.path).parent_path() == fs::path(folder / "runs/snakes_3v3"));
  CHECK(std::regex_match(fs::path(run.path).filename().string(), std::regex("run1_\\d{8}_\\d{6}")));
  CHECK(create_run_folder(folder / "runs", "snakes_3v3").number == 2);
  CHECK(create_run_folder(folder / "runs", "snakes_1v1").number == 1);
}

TEST_CASE("the next number follows the highest one, old plain names included", "[unit]") {
  const TemporaryFolder folder;
  for (const char* name :
       {"run3_20250101_000000", "run12", "run9_old", "runner99", "run", "run-77", "run5x", "best_run55"}) {
    fs::create_directories(folder.path() / "game" / name);
  }
  CHECK(create_run_folder(folder.path(), "game").number == 13);
}

TEST_CASE("a folder with an absurd number neither raises the next one nor is the newest run", "[unit]") {
  for (const char* name : {"run999999999999999", "run1000000000000000", "run9223372036854775806",
                           "run9223372036854775807_20260101", "run99999999999999999999"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "game" / name);
    std::vector<std::string> ours;
    for (int n = 0; n < 3; ++n) ours.push_back(create_run_folder(folder.path(), "game").path);
    const std::vector<std::string> all = run_folders(folder.path(), "game");
    CHECK(std::set<std::string>(ours.begin(), ours.end()).size() == 3);
    for (const std::string& run : ours) CHECK(std::find(all.begin(), all.end(), run) != all.end());
    if (std::string(name) != "run999999999999999") CHECK(all.front() == ours.back());
  }
}

TEST_CASE("a file with a run's name is not a run, but its number counts as used", "[unit]") {
  const TemporaryFolder folder;
  const fs::path game = folder.path() / "game";
  fs::create_directories(game / "run2_20260101_000000");
  io::write_file_atomically(game / "run7_20260101.tar.gz", "");
  fs::create_symlink(game / "gone", game / "run8_20260101_000000");
  fs::create_directory_symlink(game / "run2_20260101_000000", game / "run5_linked");
  CHECK(run_folders(folder.path(), "game") ==
        std::vector<std::string>{game / "run5_linked", game / "run2_20260101_000000"});
  CHECK(create_run_folder(folder.path(), "game").number == 9);
  CHECK_THAT(file_error_of([&] { find_run_model(folder.path(), "game", 7, 1, folder / "old"); }),
             Contains("no weights of run 7, episode 1") && !Contains("tar.gz"));
}

TEST_CASE("an unreadable run does not prevent finding another one's weights", "[unit]") {
  const TemporaryFolder folder;
  put_weights(folder.path() / "game/run1_a", 3);
  put_weights(folder.path() / "game/run1_b", 3);
  fs::permissions(folder.path(), fs::perms(0755));
  std::string found, message;
  fs::permissions(folder.path() / "game/run1_b", fs::perms::none);
  {
    const ReadOnly as_nobody(folder.path() / "game");
    found = find_run_model(folder.path(), "game", 1, 3, folder / "old").actor;
    message = file_error_of([&] { find_run_model(folder.path(), "game", 1, 4, folder / "old"); });
  }
  fs::permissions(folder.path() / "game/run1_b", fs::perms::owner_all);
  CHECK_THAT(found, Contains("run1_a"));
  CHECK_THAT(message, Contains("run1_a (episodes 3), run1_b (Permission denied)"));
}

TEST_CASE("a number that another process is taking is not used again", "[unit]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "game/.run4");
  CHECK(create_run_folder(folder.path(), "game").number == 5);
}

TEST_CASE("runs that start together get the numbers from 1 on, each once", "[unit]") {
  const TemporaryFolder folder;
  constexpr int kProcesses = 3;
  constexpr int kThreads = 3;
  constexpr int kRuns = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
          for (int r = 0; r < kRuns; ++r) create_run_folder(folder.path(), "game");
        });
      }
      for (auto& thread : threads) thread.join();
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
  }
  std::set<int> numbers;
  std::size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(folder / "game")) {
    ++folders;
    std::smatch match;
    const std::string name = entry.path().filename().string();
    REQUIRE(std::regex_match(name, match, std::regex("run(\\d+)_\\d{8}_\\d{6}")));
    numbers.insert(std::stoi(match[1]));
  }
  CHECK(folders == kProcesses * kThreads * kRuns);
  CHECK(numbers.size() == folders);
  CHECK(*numbers.rbegin() == static_cast<int>(folders));
}

TEST_CASE("a place where no folder can be made is named", "[unit]") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "file", "");
  CHECK_THAT(file_error_of([&] { create_run_folder(folder / "file", "game"); }), Contains("Not a directory"));
  std::string message;
  {
    const ReadOnly read_only(folder.path());
    message = file_error_of([&] { create_run_folder(folder / "runs", "game"); });
  }
  CHECK_THAT(message, Contains("runs") && Contains("Permission denied"));
  fs::create_directories(folder / "game");
  {
    const ReadOnly read_only(folder / "game");
    message = file_error_of([&] { create_run_folder(folder.path(), "game"); });
  }
  CHECK_THAT(message, Contains("game") && Contains("Permission denied"));
  CHECK(fs::is_empty(folder / "game"));
}

TEST_CASE("a run that never began leaves no folder, unless something is in it that no start puts there",
          "[unit]") {
  const TemporaryFolder folder;
  const auto beginning = [&] {
    const std::string run = create_run_folder(folder.path(), "game").path;
    for (const char* name : {"config.json", "train.log", "train.rank3.log", "events.out.tfevents.1.host.2.0"})
      io::write_file_atomically(run + "/" + name, "text");
    fs::create_directory(run + "/games");
    return run;
  };
  const std::string gone = beginning();
  { const NewRun run(gone); }
  CHECK(fs::is_empty(folder / "game"));
  for (const char* name : {"notes.txt", "trained_model/actor_1.pth", "checkpoints/step_000000000000/part"}) {
    const std::string kept = beginning();
    fs::create_directories(fs::path(kept + "/" + name).parent_path());
    io::write_file_atomically(kept + "/" + name, "text");
    { const NewRun run(kept); }
    CHECK(fs::exists(kept + "/config.json"));
    CHECK(fs::exists(kept + "/" + name));
  }
  const std::string begun = beginning();
  {
    NewRun run(begun);
    run.has_begun();
  }
  CHECK(fs::exists(begun + "/train.log"));
}

TEST_CASE("weights are found in plain and dated runs, and in the old place after the new one", "[unit]") {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs";
  const std::string old = folder / "old";
  put_weights(folder.path() / "old/game/run2", 4000);
  CHECK(find_run_model(runs, "game", 2, 4000, old).actor ==
        folder / "old/game/run2/trained_model/actor_4000.pth");
  put_weights(folder.path() / "runs/game/run2_20250101_000000", 4000);
  CHECK(find_run_model(runs, "game", 2, 4000, old).critic ==
        folder / "runs/game/run2_20250101_000000/trained_model/critic_4000.pth");
  put_weights(folder.path() / "runs/game/run2_20250102_000000", 4000, /*with_critic=*/false);
  CHECK_THAT(find_run_model(runs, "game", 2, 4000, old).actor, Contains("run2_20250101"));
  put_weights(folder.path() / "runs/game/run2_20250103_000000", 4000);
  CHECK_THAT(find_run_model(runs, "game", 2, 4000, old).actor, Contains("run2_20250103"));
  put_weights(folder.path() / "runs/game/run21_20250103_000000", 1);
  CHECK_THAT(file_error_of([&] { find_run_model(runs, "game", 2, 1, old); }),
             Contains("no weights of run 2, episode 1"));
}

TEST_CASE("when there are no such weights, the places, runs and episodes are listed", "[unit]") {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs";
  put_weights(folder.path() / "runs/game/run1_20250101_000000", 2000);
  put_weights(folder.path() / "runs/game/run1_20250101_000000", 1000);
  put_weights(folder.path() / "runs/game/run1_20250101_000000", 3000, /*with_critic=*/false);
  fs::create_directories(folder.path() / "runs/game/run2");
  const std::string message = file_error_of([&] { find_run_model(runs, "game", 2, 4000, folder / "old"); });
  CHECK_THAT(message, Contains("no weights of run 2, episode 4000"));
  CHECK_THAT(message,
             Contains(runs + "/game: run1_20250101_000000 (episodes 1000, 2000), run2 (no weights)"));
  CHECK_THAT(message, Contains(folder / "old/game: no runs"));
  CHECK_THAT(message, Contains("--load_model_run_episode"));
}

}  // namespace
}  // namespace snake_ddp::io
