// Files of this folder that CMakeLists.txt embeds.
#pragma once

#include <string_view>

namespace snake_ddp::app {

extern const std::string_view kReplayPageHtml, kReportPageHtml;
/// The program for the platform, submission.py. Eight values between @ signs are to be filled in: ACTOR_FILE,
/// OUTPUT_ACTIVATION, CHOICE, MASK_FATAL, LOOK_AHEAD, HEADING_UP, DISCOUNT, POINT.
extern const std::string_view kSubmission;

}  // namespace snake_ddp::app
