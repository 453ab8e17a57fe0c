// Text from outside: arguments, names, system messages.
#pragma once

#include <string>
#include <string_view>

namespace snake_ddp::base {

/// Whether `text` is UTF-8, as JSON requires.
bool is_utf8(std::string_view text);

/// `text` with each byte that is not part of UTF-8 replaced by an escape such as \xe9.
std::string as_utf8(std::string_view text);

}  // namespace snake_ddp::base
