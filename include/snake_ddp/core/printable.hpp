// Text from outside on its way to a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace snake_ddp::core {

/// `text` as it may be shown: each byte that is not UTF-8, and each character that would control a terminal or turn the
/// order of the others, as an escape such as \x1b or \u202e. Tabs and line breaks stay. JSON stays JSON with the same
/// values.
std::string printable(std::string_view text);

/// Escapes one message: its further lines are indented, so that none looks like another message. Consoles, tell_error
/// and log files print so.
std::string printable_line(std::string_view text);

/// Escapes a name within a message: a tab or line break is an escape, too.
std::string as_plain(std::string_view text);

/// Prints a picture of our own, with escape codes, as print_result prints text. Names in it are the caller's to escape.
void draw(std::string_view text);

}  // namespace snake_ddp::core
