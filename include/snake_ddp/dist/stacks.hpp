// Where each thread of this process is, for whoever reads the log of a run that hung.
#pragma once

namespace snake_ddp::dist {

/// Takes a signal that nobody else uses (SIGRTMIN + 7) and loads what walking stacks needs. Call it once, early.
void prepare_stacks();

/// Writes every thread's name and stack to standard error, the calling one's included, with function names where
/// libraries and the program export them.
/// Threads     any, one at a time.
/// Waits       a second for all that do not answer; one in the kernel for good cannot.
void print_stacks();

}  // namespace snake_ddp::dist
