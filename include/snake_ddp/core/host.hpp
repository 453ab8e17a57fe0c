// What this process sees of its machine.
#pragma once

#include <string>
#include <string_view>

namespace snake_ddp::core {

/// This machine's host name; "unknown-host" if the system does not provide it.
std::string host_name();

/// Cores that this process may run on, at least 1; fewer if its control group limits its time.
int usable_cores();

/// The CPU quota of a control group and its parents, in cores, rounded up; 0 without a limit. `groups` is the text of
/// /proc/self/cgroup; `root` is where version 2 is mounted, with version 1's `cpu` below it. In a container the path may
/// be the host's: then the mount's own limit counts.
int quota_cores(std::string_view groups, const std::string& root);

/// Raises this process's limit on open files to what it may have.
void allow_many_files();

/// The time in seconds. Once this process has asked, it goes on as the steady clock does: the system's may be set during a run.
double seconds_since_1970();

/// Main memory that this process can still get, in bytes, within the limit of its container.
std::int64_t available_bytes();

/// Main memory that this process occupies, in MiB; 0 if the system does not say.
double resident_mb();

/// From now on, main memory that is freed stays with this process. For programs that free and allocate the same megabytes again
/// and again: they would get each page from the system anew.
void keep_freed_memory();

}  // namespace snake_ddp::core
