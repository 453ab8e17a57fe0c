// Prints where each thread of this process is, to diagnose a run that hung.
#pragma once

namespace snake_ddp::dist {

/// Installs a handler for an unused signal (SIGRTMIN + 7) and loads what stack walking needs. Call it once, early.
void prepare_stacks();

/// Writes every thread's name and stack to standard error, the calling one's included, with function names where
/// libraries and the program export them.
/// Threads     any, one at a time.
/// Waits       one second for all threads; those blocked in the kernel do not respond.
void print_stacks();

}  // namespace snake_ddp::dist
