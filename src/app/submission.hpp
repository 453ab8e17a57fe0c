// The program for the platform, from submission.py beside this file.
#pragma once

#include <string_view>

namespace snake_ddp::app {

/// Three values between @ signs are to be filled in: ACTOR_FILE, OUTPUT_ACTIVATION, CHOICE.
std::string_view submission_template();

}  // namespace snake_ddp::app
