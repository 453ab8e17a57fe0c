// The program itself.
#pragma once

#include <string>

namespace snake_ddp::running {

/// Its version, and what it was built with.
std::string version_text();

/// The version, and a hash of the sources. Ranks join whose texts are equal: the same sources, built on machines of different
/// kinds, do.
std::string build_text();

}  // namespace snake_ddp::running
