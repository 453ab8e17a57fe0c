#include "snake_ddp/base/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <fstream>

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
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

double resident_mb() {
  std::ifstream sizes("/proc/self/statm");  // in pages: the address space, then what is in memory
  double all = 0, resident = 0;
  sizes >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
}

}  // namespace snake_ddp::base
