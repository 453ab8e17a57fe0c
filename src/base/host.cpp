#include "snake_ddp/base/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "snake_ddp/base/text.hpp"

namespace snake_ddp::base {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown-host";
  return as_utf8(name.data());
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream file("/proc/self/cgroup");
  const std::string groups{std::istreambuf_iterator<char>(file), {}};
  const int quota = quota_cores(groups, "/sys/fs/cgroup");
  return quota > 0 ? std::min(quota, cores) : cores;
}

int quota_cores(std::string_view groups, const std::string& root) {
  const std::size_t begin = groups.find("0::/");  // version 2; it has one line
  if (begin == std::string_view::npos) return 0;
  const std::string_view line = groups.substr(begin + 3, groups.find('\n', begin) - begin - 3);
  double least = 0.0;
  for (std::filesystem::path group = line;; group = group.parent_path()) {
    std::ifstream file(root + group.string() + "/cpu.max");  // "200000 100000", or "max 100000"
    double time = 0.0, period = 0.0;
    if (file >> time >> period && time > 0.0 && period > 0.0)
      least = least > 0.0 ? std::min(least, time / period) : time / period;
    if (!group.has_relative_path()) break;
  }
  return static_cast<int>(std::ceil(least));
}

double resident_mb() {
  std::ifstream sizes("/proc/self/statm");  // in pages: the address space, then what is in memory
  double all = 0, resident = 0;
  sizes >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
}

}  // namespace snake_ddp::base
