// Requests from outside, as flags that the loop looks at.
#pragma once

namespace snake_ddp::train {

/// From now on SIGTERM, SIGINT and SIGUSR1 ask for a stop, which `stop_requested` tells; repeats are ignored
/// (srun and torchrun deliver each twice), but the third SIGINT ends the process at once. SIGUSR2 asks for saving. SIGPIPE is ignored.
void watch_signals();

/// Whether SIGUSR2 came since the last call.
bool take_save_request();

/// Whether a stop was asked for.
/// Threads     any.
bool stop_requested();

}  // namespace snake_ddp::train
