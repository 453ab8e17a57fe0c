// The kinds of failure and their exit codes. Only `main`, thread entries, and code that adds information and
// rethrows catch them.
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

namespace snake_ddp::core {

/// What `main` returns for each kind.
enum ExitCode : int {
  kExitDone = 0,
  kExitBug = 1,
  kExitUsage = 2,
  kExitDist = 3,
  kExitFile = 4,
  kExitResumable = 75,
};

/// Part of the interface: the reference prints it.
struct ExitCodeEntry {
  ExitCode code;
  const char* when;
};
inline constexpr ExitCodeEntry kExitCodes[] = {
    {kExitDone,
     "done: all steps or episodes played, target reached, or time up; under torchrun also after a stop by a "
     "signal"},
    {kExitBug, "an internal error, out of memory, a loss that is not finite; verify-trace found a mismatch"},
    {kExitUsage, "a flag, key, value or variable is wrong"},
    {kExitDist, "distributed failure: a rank is missing, lost or late, or ranks disagree"},
    {kExitFile,
     "a file, checkpoint or disk; or a stop by a signal with --checkpoint_interval 0, which leaves nothing "
     "to resume from"},
    {kExitResumable, "stopped by a signal, with a complete checkpoint: start again with --resume"},
};

/// The message says what happened, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

/// A flag, key, value or variable that the user can fix.
struct UsageError : Error {
  explicit UsageError(const std::string& message) : Error(kExitUsage, message) {}
};

/// A rank lost, late, or in disagreement. `peer_only`: this rank only noticed that another one died.
struct DistError : Error {
  explicit DistError(const std::string& message, bool peer_only_ = false)
      : Error(kExitDist, message), peer_only(peer_only_) {}
  bool peer_only;
};

/// A file, checkpoint or disk.
struct FileError : Error {
  explicit FileError(const std::string& message) : Error(kExitFile, message) {}
};

/// A stop was requested before there was anything to lose.
struct Stopped : Error {
  explicit Stopped(const std::string& message) : Error(kExitResumable, message) {}
};

/// Whether this is what std::thread throws at the limit of processes and threads.
inline bool is_lack_of_threads(const std::exception& error) {
  const auto* from_system = dynamic_cast<const std::system_error*>(&error);
  return from_system != nullptr && from_system->code() == std::errc::resource_unavailable_try_again;
}

/// One of our invariants does not hold.
struct Bug : Error {
  explicit Bug(const std::string& message) : Error(kExitBug, message) {}
};

}  // namespace snake_ddp::core
