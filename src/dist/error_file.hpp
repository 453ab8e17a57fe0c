// Reports to the launcher why this process dies: TORCHELASTIC_ERROR_FILE, which torchrun shows in its summary.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// Writes `message` to TORCHELASTIC_ERROR_FILE, completely or not at all; the first error of a process stays.
/// `peer_only` makes the time stamp five seconds later, so that torchrun names the rank that failed
/// first.
/// Returns     false if the variable is unset, the file exists already, or it cannot be written.
bool write_error_file(const std::string& message, int exit_code, bool peer_only = false);

/// Reports exceptions that end a library's thread, aborts, and fatal signals in the same way. If a library's thread
/// throws because the process group failed, the process exits with kExitDist. Call it first in `main`.
void install_failure_handlers();

/// The file to which write_last_words appends: the log of a run.
void keep_last_words(const std::string& path);

/// Appends a line to that file, for handlers of signals that end the process.
void write_last_words(const char* line);

}  // namespace snake_ddp::dist
