// What this process sees of its machine.
#pragma once

#include <string>

namespace snake_ddp::base {

/// This machine's host name; "unknown-host" if the system does not provide it.
std::string host_name();

/// Cores that this process may run on, at least 1.
int usable_cores();

/// Main memory that this process occupies, in MiB; 0 if the system does not say.
double resident_mb();

}  // namespace snake_ddp::base
