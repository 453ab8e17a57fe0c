// Text that comes from outside: arguments, names, what the system says.
#pragma once

#include <string>
#include <string_view>

namespace snake_ddp::base {

/// Whether `text` is UTF-8, as JSON wants it.
bool is_utf8(std::string_view text);

/// `text` with \xe9, say, in the place of each byte that is no part of UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace snake_ddp::base
