// The program that plays on the platform, as submission.py beside this file has it.
#pragma once

#include <string_view>

namespace snake_ddp::app {

/// Three values between @ signs are to be filled in: ACTOR_FILE, OUTPUT_ACTIVATION, CHOICE.
std::string_view submission_template();

}  // namespace snake_ddp::app
