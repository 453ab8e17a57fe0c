// Main memory of this machine.
#pragma once

#include <cstdint>

namespace snake_ddp::base {

/// What this process can still get, in bytes, within the limit of its container.
std::int64_t available_bytes();

}  // namespace snake_ddp::base
