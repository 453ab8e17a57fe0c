// The signals that are requests to a run: to stop, and SIGUSR2 to save and continue.
#pragma once

#include <array>
#include <csignal>

namespace snake_ddp::core {

inline constexpr std::array kRunSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

inline sigset_t run_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kRunSignals) sigaddset(&set, number);
  return set;
}

/// Blocks them: they stay pending until they are released. The mask survives exec, and threads that start later
/// inherit it.
/// Threads  the calling one.
inline void hold_run_signals() {
  const sigset_t set = run_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// Unblocks them; pending ones arrive at once.
/// Threads  the calling one.
inline void release_run_signals() {
  const sigset_t set = run_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace snake_ddp::core
