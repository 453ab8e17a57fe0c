// Signals, as flags that a training loop polls.
#pragma once

namespace snake_ddp::dist {

/// From now on SIGTERM, SIGINT, SIGUSR1 and, unless it was ignored before, SIGHUP request a stop: see
/// `stop_requested`. Repeats are ignored (srun and torchrun deliver each twice), but the third SIGINT ends the
/// process at once. SIGUSR2 requests a checkpoint. SIGPIPE is ignored. Releases core::kRunSignals: a signal that came
/// earlier counts.
void watch_signals();

/// Whether SIGUSR2 came since the last call.
bool take_save_request();

/// Whether a stop was requested.
/// Threads     any.
bool stop_requested();

}  // namespace snake_ddp::dist
