#include "snake_ddp/train/signals.hpp"

#include <unistd.h>
#include <csignal>
#include <cstdlib>

namespace snake_ddp::train {
namespace {

volatile std::sig_atomic_t g_stop = 0;
volatile std::sig_atomic_t g_interrupts = 0;

volatile std::sig_atomic_t g_save = 0;

extern "C" void on_save_signal(int) { g_save = 1; }

extern "C" void on_signal(int signal) {
  g_stop = 1;
  if (signal == SIGINT) {
    g_interrupts = g_interrupts + 1;
    if (g_interrupts >= 3) _exit(128 + SIGINT);
  }
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int s : {SIGTERM, SIGINT, SIGUSR1}) sigaction(s, &action, nullptr);
  action.sa_handler = on_save_signal;
  sigaction(SIGUSR2, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool take_save_request() {
  const bool asked = g_save != 0;
  g_save = 0;
  return asked;
}

bool stop_requested() { return g_stop != 0; }

}  // namespace snake_ddp::train
