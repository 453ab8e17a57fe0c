// The program itself.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// Its version, and what it was built with.
std::string version_text();

/// The version, and a hash of the sources. Ranks join only if their texts are equal. Builds of the same
/// sources have equal texts, even if made on different kinds of machines.
std::string build_text();

}  // namespace snake_ddp::dist
