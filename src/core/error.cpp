#include "snake_ddp/core/error.hpp"

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::core {

void fail_check(const char* file, int line, const char* condition, const std::string& detail) {
  const std::string path(file);
  const auto slash = path.rfind('/');
  throw Bug("internal error at " + path.substr(slash == std::string::npos ? 0 : slash + 1) + ":" +
            std::to_string(line) + ": expected " + condition + (detail.empty() ? "" : ": " + detail) +
            ". Please report this with the command that led to it.");
}

}  // namespace snake_ddp::core
