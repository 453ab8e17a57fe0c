// The state of another process on this machine, as the system reports it.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// "has ended", "is stopped by a signal", or "is alive but did not reach this call".
std::string process_state(long pid);

/// Also true of a process that its parent has not yet waited for.
bool process_has_ended(long pid);

}  // namespace snake_ddp::dist
