#include "dist/self_launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "dist/world.hpp"
#include "network.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/deadline.hpp"
#include "snake_ddp/core/run_signals.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace snake_ddp::dist {
namespace {

using core::DistError;

constexpr const char* kLauncher = "SNAKE_DDP_LAUNCHER";  // the process that started this rank
constexpr std::array<std::string_view, 9> kReplaced = {
    "RANK",        "WORLD_SIZE", "LOCAL_RANK",         "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", "GROUP_RANK", "SNAKE_DDP_STORE_FD", kLauncher};

// Whether to remove this variable from a rank's environment. torchrun's may be left over in a shell: they would make
// a rank take this launcher for torchrun.
bool is_not_for_ranks(std::string_view name) {
  return std::find(kReplaced.begin(), kReplaced.end(), name) != kReplaced.end() ||
         (name.starts_with("TORCHELASTIC_") && name != "TORCHELASTIC_ERROR_FILE");
}

// Pointers into strings that must outlive them, for exec.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> p;
  for (std::string& text : texts) p.push_back(text.data());
  p.push_back(nullptr);
  return p;
}

std::vector<std::string> environment_of(int rank, int world_size, std::uint16_t port, int store_fd) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!is_not_for_ranks(name)) all.emplace_back(text);
  }
  all.push_back(fmt::format("RANK={}", rank));
  all.push_back(fmt::format("LOCAL_RANK={}", rank));
  all.push_back(fmt::format("WORLD_SIZE={}", world_size));
  all.push_back(fmt::format("LOCAL_WORLD_SIZE={}", world_size));
  all.emplace_back("MASTER_ADDR=127.0.0.1");
  all.push_back(fmt::format("MASTER_PORT={}", port));
  all.push_back(fmt::format("{}={}", kLauncher, ::getpid()));
  if (rank == 0) all.push_back(fmt::format("SNAKE_DDP_STORE_FD={}", store_fd));
  return all;
}

// Blocks the signals that this thread waits for; the destructor restores the mask.
class HeldSignals {
 public:
  HeldSignals() : held_(core::run_signals()) {
    sigaddset(&held_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// A rank's first mask: the run's signals wait until it can handle them.
  [[nodiscard]] sigset_t of_ranks() const {
    sigset_t mask = before_;
    for (const int s : core::kRunSignals) sigaddset(&mask, s);
    return mask;
  }
  /// The next signal, or 0 after a tenth of a second.
  [[nodiscard]] int next() const {
    const timespec limit{0, 100'000'000};
    return std::max(0, ::sigtimedwait(&held_, nullptr, &limit));
  }

 private:
  sigset_t held_;
  sigset_t before_{};
};

pid_t start(const std::string& program, std::vector<std::string> arguments,
            std::vector<std::string> environment, int inherited_fd, const sigset_t& mask) {
  // All memory is allocated before the fork.
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw DistError(fmt::format("cannot start another process: {}", std::strerror(errno)));
  if (child > 0) return child;
  ::setpgid(0, 0);                // a terminal's Ctrl-C reaches the launcher alone, which forwards it once
  std::signal(SIGTTOU, SIG_IGN);  // and one with `stty tostop` does not stop a rank that writes
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(core::kExitDist);  // the launcher died in between
  if (inherited_fd >= 0) ::fcntl(inherited_fd, F_SETFD, 0);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::execve(program.c_str(), argv.data(), envp.data());
  ::_exit(127);
}

// The id alone may be left over in a shell.
bool is_rank_of_torchrun() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr && !this_rank().empty(); }

bool is_ignored(int signal_number) {
  struct sigaction action {};
  ::sigaction(signal_number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

class Ranks {
 public:
  explicit Ranks(const LaunchLimits& limits) : limits_(limits), hangup_is_ignored_(is_ignored(SIGHUP)) {}
  ~Ranks() {  // not empty only if a rank could not be started
    for (const Rank& r : running_) {
      ::kill(r.pid, SIGKILL);
      ::waitpid(r.pid, nullptr, 0);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add(int rank, pid_t pid) { running_.push_back({rank, pid}); }
  [[nodiscard]] bool any() const { return !running_.empty(); }
  [[nodiscard]] int exit_code() const {
    return failed_code_ != 0 ? failed_code_ : resumable_ ? core::kExitResumable : 0;
  }

  void send(int signal_number) const {
    for (const Rank& r : running_) ::kill(r.pid, signal_number);
  }

  void pass_on(int signal_number) {
    send(signal_number);
    if (signal_number == SIGUSR2 || (signal_number == SIGHUP && hangup_is_ignored_)) return;
    if (!stopping_) suspended_until_ = core::Deadline::in(limits_.suspended_after);
    stopping_ = true;
    if (signal_number == SIGINT && ++interrupts_ == 3) send(SIGKILL);
  }

  void reap() {
    for (auto r = running_.begin(); r != running_.end();) {
      int status = 0;
      if (::waitpid(r->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != r->pid) {
        ++r;
        continue;
      }
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        r->stopped = WIFSTOPPED(status);
        continue;
      }
      const Rank ended = *r;
      r = running_.erase(r);
      note(ended, status);
    }
    if ((failed_code_ != 0 || resumable_) && kill_at_.passed()) send(SIGKILL);
    if (stopping_ && suspended_until_.passed()) kill_the_suspended();
    if (any_done_ && finish_by_.passed()) end_the_late();
  }

 private:
  struct Rank {
    int rank;
    pid_t pid;
    bool stopped = false;  // by a signal: SIGSTOP, SIGTSTP
    bool killed = false;   // for being late
  };

  void note(const Rank& ended, int status) {
    const bool by_signal = WIFSIGNALED(status);
    const int code = by_signal ? static_cast<int>(core::kExitDist) : WEXITSTATUS(status);
    if (code == core::kExitDone) {
      // When one rank is done all work is done. No rank waits for another any more, so none would notice one that is
      // stuck.
      if (!any_done_) finish_by_ = core::Deadline::in(limits_.finish_within);
      any_done_ = true;
      return;
    }
    if (code == core::kExitResumable) {  // an agreed stop, or one before all had joined: the others stop too
      if (!resumable_) end_the_others();
      resumable_ = true;
      return;
    }
    if (failed_code_ != 0) {
      // A rank that lost its peer returns kExitDist, sometimes before the peer itself has ended.
      if (failed_code_ == core::kExitDist) failed_code_ = code;
      return;
    }
    failed_code_ = code;
    end_the_others();
    core::tell_error(fmt::format("rank {} (pid {}) {}{}; ending the others", ended.rank, ended.pid,
                                 by_signal ? "was killed by signal " : "exited with code ",
                                 by_signal ? ::strsignal(WTERMSIG(status)) : std::to_string(code)));
  }

  void end_the_others() {
    send(SIGTERM);
    kill_at_ = core::Deadline::in(limits_.kill_after);
  }

  void kill_the_suspended() {
    for (Rank& r : running_) {
      if (r.killed || !r.stopped) continue;
      core::tell_error(
          fmt::format("rank {} (pid {}) is suspended and cannot stop; killing it", r.rank, r.pid));
      ::kill(r.pid, SIGKILL);
      r.killed = true;
    }
  }

  // Rank 0 may print a result to a slow reader, but not while it is stopped.
  void end_the_late() {
    for (Rank& r : running_) {
      if (r.killed || (r.rank == 0 && !r.stopped)) continue;
      core::tell_error(fmt::format("rank {} (pid {}) {} {:.1f} s after another rank was done; killing it",
                                   r.rank, r.pid, r.stopped ? "is stopped" : "still runs",
                                   std::chrono::duration<double>(limits_.finish_within).count()));
      ::kill(r.pid, SIGKILL);
      r.killed = true;
    }
  }

  const LaunchLimits limits_;
  const bool hangup_is_ignored_;  // under nohup
  std::vector<Rank> running_;
  int failed_code_ = 0;
  bool resumable_ = false;
  core::Deadline kill_at_ = core::Deadline::in({});
  bool stopping_ = false;
  int interrupts_ = 0;
  core::Deadline suspended_until_ = core::Deadline::in({});
  bool any_done_ = false;
  core::Deadline finish_by_ = core::Deadline::in({});
};

}  // namespace

int launch_local_ranks(int world_size, const std::vector<std::string>& arguments,
                       const LaunchLimits& limits) {
  if (world_size < 1) throw core::UsageError(fmt::format("--world_size {}: must be at least 1", world_size));
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error)
    throw core::DistError(
        fmt::format("cannot find this program's own path: {}; is /proc mounted?", error.message()));
  std::uint16_t store_port = 0;
  const int store_fd = listen_at("127.0.0.1", store_port);
  std::signal(SIGCHLD, SIG_DFL);  // where the parent ignored it, ranks would end without a trace
  const HeldSignals signals;
  Ranks ranks(limits);
  for (int r = 0; r < world_size; ++r)
    ranks.add(r, start(program, arguments, environment_of(r, world_size, store_port, store_fd),
                       r == 0 ? store_fd : -1, signals.of_ranks()));
  ::close(store_fd);  // rank 0 has it now
  while (ranks.any()) {
    const int signal_number = signals.next();
    if (signal_number > 0 && signal_number != SIGCHLD) ranks.pass_on(signal_number);
    ranks.reap();
  }
  return ranks.exit_code();
}

bool is_own_rank() {
  const char* const launcher = std::getenv(kLauncher);
  return launcher != nullptr && launcher == std::to_string(::getppid());
}

core::ExitCode exit_code_after_stop(core::ExitCode code) {
  if (!is_rank_of_torchrun()) return code;
  const char *const file = std::getenv("SNAKE_DDP_EXIT_CODE_FILE"), *const rank = std::getenv("LOCAL_RANK");
  if (file != nullptr && (rank == nullptr || std::string_view(rank) == "0")) std::ofstream(file) << code;
  return core::kExitDone;
}

void end_with_torchrun() {
  if (!is_rank_of_torchrun()) return;
  // torchrun gives each rank a session. Below a script that does not exec, the parent is that script, which a stop may
  // end before the checkpoint is written.
  if (::getsid(0) != ::getpid()) return;
  const pid_t agent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(core::kExitDist);  // the agent ended in between
}

}  // namespace snake_ddp::dist
