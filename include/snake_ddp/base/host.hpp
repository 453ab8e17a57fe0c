// The machine's name, for messages.
#pragma once

#include <string>

namespace snake_ddp::base {

/// This machine's host name; "unknown-host" where the system does not tell.
std::string host_name();

}  // namespace snake_ddp::base
