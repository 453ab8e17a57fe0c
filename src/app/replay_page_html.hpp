// The page, embedded by CMakeLists.txt from replay_page.html.
#pragma once

#include <string_view>

namespace snake_ddp::app {

extern const std::string_view kReplayPageHtml;

}  // namespace snake_ddp::app
