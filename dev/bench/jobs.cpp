#include "jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dist/self_launch.hpp"
#include "io/atomic_file.hpp"
#include "io/fields.hpp"
#include "io/file_error.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace snake_ddp::bench {
namespace {

cpu_set_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    throw core::Error(core::kExitBug,
                      fmt::format("cannot read this process's cores: {}", std::strerror(errno)));
  return set;
}

void use_cores(const cpu_set_t& set) {
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw core::Error(core::kExitBug, fmt::format("cannot choose cores: {}", std::strerror(errno)));
}

// A started process inherits the cores of the process that starts it.
class OnCores {
 public:
  explicit OnCores(const std::vector<int>& cores) : before_(usable_cores()) {
    if (cores.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
    use_cores(set);
  }
  ~OnCores() { sched_setaffinity(0, sizeof before_, &before_); }
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

 private:
  cpu_set_t before_;
};

pid_t start(const Job& job, const std::string& result_file) {
  std::error_code none;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", none).string();
  if (none) throw io::file_error("read", "/proc/self/exe", none.value());
  std::vector<std::string> line = {"bench",
                                   "--job",
                                   job.name,
                                   "--job_parent",
                                   std::to_string(getpid()),
                                   "--job_settings",
                                   job.settings.dump(),
                                   "--ranks",
                                   std::to_string(job.ranks),
                                   "--job_result",
                                   result_file};
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const OnCores on_cores(job.cores);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw core::Error(core::kExitBug, fmt::format("cannot start another process: {}", std::strerror(error)));
  return pid;
}

void end_all(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    kill(pid, SIGTERM);
    waitpid(pid, nullptr, 0);
  }
}

// Ends this process as soon as its parent is gone.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(core::kExitBug);  // already
}

// Ends and collects what was started and not waited for.
struct Started {
  std::vector<pid_t> pids;
  ~Started() { end_all(pids); }
};

}  // namespace

std::vector<nlohmann::json> run_jobs(const std::vector<Job>& jobs) {
  if (!dist::this_world(dist::Purpose::kOther).alone())
    throw core::UsageError("this bench starts its own ranks: call it without torchrun or srun");
  const TemporaryFolder folder;
  const auto result_file = [&](std::size_t k) { return fmt::format("{}/result{}.json", folder.path(), k); };
  Started started;
  for (std::size_t k = 0; k < jobs.size(); ++k) started.pids.push_back(start(jobs[k], result_file(k)));
  std::vector<nlohmann::json> results;
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    int status = 0;
    while (waitpid(started.pids.front(), &status, 0) < 0 && errno == EINTR) {
    }
    started.pids.erase(started.pids.begin());
    if (status != 0)
      throw core::Error(core::kExitBug,
                        fmt::format("the bench's process \"{}\" {} {}; its output is above", jobs[k].name,
                                    WIFSIGNALED(status) ? "was killed by signal" : "returned",
                                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
    results.push_back(nlohmann::json::parse(io::read_file(result_file(k))));
  }
  return results;
}

BusyNeighbours::BusyNeighbours(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
      end_with(parent);
      for (volatile int turn = 0;;) turn = turn + 1;
    }
    if (pid < 0) {
      const int error = errno;
      end_all(pids_);
      throw core::Error(core::kExitBug, fmt::format("cannot start a busy process: {}", std::strerror(error)));
    }
    pids_.push_back(pid);
  }
}

BusyNeighbours::~BusyNeighbours() { end_all(pids_); }

int do_job(JobAction action, int ranks, int parent, const std::string& settings,
           const std::string& result_file, const std::vector<std::string>& arguments) {
  const dist::World world = dist::this_world(dist::Purpose::kOther);
  const bool is_job = world.alone();  // and not one of its ranks
  if (is_job) end_with(parent);
  if (ranks > 1 && is_job) {
    std::vector<std::string> again = {"bench"};
    again.insert(again.end(), arguments.begin(), arguments.end());
    return dist::launch_local_ranks(ranks, again);
  }
  const nlohmann::json result = action(nlohmann::json::parse(settings), world);
  if (world.rank == 0) io::write_json(result_file, result);
  return core::kExitDone;
}

std::vector<int> first_cores(int count) {
  const cpu_set_t set = usable_cores();
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && static_cast<int>(cores.size()) < count; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  if (static_cast<int>(cores.size()) < count)
    throw core::UsageError(
        fmt::format("--ranks {} needs as many cores; this process may use {}", count, cores.size()));
  return cores;
}

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / "snake_ddp.bench.XXXXXX").string();
  if (error) throw io::file_error("find the folder for temporary files", path_, error.value());
  if (mkdtemp(path_.data()) == nullptr) throw io::file_error("make the folder", path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // what cannot be removed stays in the system's folder for temporary files
  std::filesystem::remove_all(path_, ignored);
}

nlohmann::json run_settings(const std::string& config_file) {
  train::TrainOptions options;
  if (!config_file.empty()) options = train::options_of_file(io::read_file(config_file), config_file);
  train::check_together(options);
  return io::to_json(train::fields(options));
}

train::TrainOptions options_from(const nlohmann::json& settings) {
  train::TrainOptions options;
  io::set_from_json(train::fields(options), settings, "the bench's settings");
  return options;
}

double median(std::vector<double> values) {
  SD_CHECK(!values.empty(), "a median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace snake_ddp::bench
