// Benches that need processes of their own: this program started again with `--job NAME`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dist/world.hpp"
#include "train/options.hpp"

namespace snake_ddp::bench {

/// A process, or a group of ranks, on cores of its own.
struct Job {
  std::string name;
  nlohmann::json settings;
  int ranks = 1;
  std::vector<int> cores = {};  // empty: those of this process
};

/// What a job's process does. `settings` are the job's; what rank 0 returns is the job's result.
using JobAction = nlohmann::json (*)(const nlohmann::json& settings, const dist::World& world);

/// Starts all jobs at once, waits for all of them, and returns their results in order. Their standard output
/// is discarded; they end with this process.
/// Throws      UsageError inside a group of ranks; Error when a job fails: its own message is on stderr.
std::vector<nlohmann::json> run_jobs(const std::vector<Job>& jobs);

/// Called in the started process: does the job, or starts its ranks, and writes rank 0's result to
/// `result_file`. `parent` is the process that started the job; it ends with that. `arguments` are the whole command
/// line, for the ranks.
int do_job(JobAction action, int ranks, int parent, const std::string& settings,
           const std::string& result_file, const std::vector<std::string>& arguments);

/// Processes that each keep a core busy until this is destroyed, like other users of a shared machine.
class BusyNeighbours {
 public:
  /// Throws      Error where no more processes can be started.
  explicit BusyNeighbours(int count);
  ~BusyNeighbours();
  BusyNeighbours(const BusyNeighbours&) = delete;
  BusyNeighbours& operator=(const BusyNeighbours&) = delete;

 private:
  std::vector<int> pids_;
};

/// The first `count` of the cores that this process may use.
/// Throws      UsageError when there are fewer.
std::vector<int> first_cores(int count);

/// A folder for a bench's files; the destructor removes it with its contents.
class TemporaryFolder {
 public:
  /// Throws      FileError.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Settings of a run as they travel to a job: the reference's schedule, or those of a configuration file.
/// Throws      as io::read_file and io::set_from_json_text.
nlohmann::json run_settings(const std::string& config_file);
train::TrainOptions options_from(const nlohmann::json& settings);

/// The middle one; of an even number the mean of the two.
double median(std::vector<double> values);

}  // namespace snake_ddp::bench
