#include "snake_ddp/base/host.hpp"

#include <unistd.h>

#include <array>

namespace snake_ddp::base {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown-host";
  return name.data();
}

}  // namespace snake_ddp::base
