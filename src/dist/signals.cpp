#include "dist/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "dist/error_file.hpp"
#include "snake_ddp/core/run_signals.hpp"

namespace snake_ddp::dist {
namespace {

// The system may run a handler in any thread, and the watchdog reads the flags from its own.
std::atomic<bool> g_stop{false}, g_save{false};
std::atomic<int> g_interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_save_signal(int) { g_save = true; }

extern "C" void on_signal(int signal) {
  g_stop = true;
  if (signal == SIGINT && ++g_interrupts >= 3) {
    write_last_words("Ended by the third SIGINT\n");
    _exit(128 + SIGINT);
  }
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int s : {SIGTERM, SIGINT, SIGUSR1}) sigaction(s, &action, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // ignored if started by nohup
  action.sa_handler = on_save_signal;
  sigaction(SIGUSR2, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  core::release_run_signals();
}

bool take_save_request() { return g_save.exchange(false); }

bool stop_requested() { return g_stop; }

}  // namespace snake_ddp::dist
