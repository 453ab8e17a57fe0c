#include "snake_ddp/base/memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace snake_ddp::base {

std::int64_t available_bytes() {
  const auto number_after = [](std::ifstream file, std::string_view name) {
    std::int64_t number = 0;
    for (std::string word; file >> word;)
      if (word == name && file >> number) break;
    return number;
  };
  const std::filesystem::path group =
      "/sys/fs/cgroup";  // inside a container its own control group is at the root
  const std::int64_t machine = number_after(std::ifstream("/proc/meminfo"), "MemAvailable:") * 1024;
  std::int64_t limit = 0, used = 0;
  std::ifstream most(group / "memory.max"), now(group / "memory.current");  // "max": no limit
  if (!(most >> limit && now >> used)) return machine;
  for (const char* cache : {"inactive_file", "active_file"})  // given up when memory is short
    used -= number_after(std::ifstream(group / "memory.stat"), cache);
  return std::clamp<std::int64_t>(limit - used, 0, machine);
}

}  // namespace snake_ddp::base
