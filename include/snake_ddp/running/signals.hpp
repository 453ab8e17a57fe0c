// Signals, as flags that a training loop looks at.
#pragma once

namespace snake_ddp::running {

/// From now on SIGTERM, SIGINT, SIGUSR1 and, unless it was ignored before, SIGHUP ask for a stop, which `stop_requested`
/// tells; repeats are ignored (srun and torchrun deliver each twice), but the third SIGINT ends the process at once.
/// SIGUSR2 asks for saving. SIGPIPE is ignored. Releases base::kRunSignals: one that came before counts.
void watch_signals();

/// Whether SIGUSR2 came since the last call.
bool take_save_request();

/// Whether a stop was asked for.
/// Threads     any.
bool stop_requested();

}  // namespace snake_ddp::running
