// The page, embedded by CMakeLists.txt from report_page.html.
#pragma once

#include <string_view>

namespace snake_ddp::app {

extern const std::string_view kReportPageHtml;

}  // namespace snake_ddp::app
