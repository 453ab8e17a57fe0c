// Our invariants, checked in every build.
#pragma once

#include <string>

namespace snake_ddp::core {

/// Throws Bug with file, line and the condition's text. Used by SD_CHECK.
[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace snake_ddp::core

/// Always compiled. SD_CHECK(n > 0, "n is " + std::to_string(n));
#define SD_CHECK(condition, detail)                                                       \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::snake_ddp::core::fail_check(__FILE__, __LINE__, #condition, std::string(detail)); \
  } while (false)
