#include "snake_ddp/core/host.hpp"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "snake_ddp/core/text.hpp"

namespace snake_ddp::core {
namespace {

namespace fs = std::filesystem;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// The CPU quota, in cores, of a control group of version 2 or 1.
double quota_of(const fs::path& group) {
  double time = 0, period = 0;
  std::ifstream both(group / "cpu.max");  // "200000 100000", or "max 100000"
  if (both >> time >> period && time > 0 && period > 0) return time / period;
  std::ifstream first(group / "cpu.cfs_quota_us"), second(group / "cpu.cfs_period_us");  // -1: no limit
  if (first >> time && second >> period && time > 0 && period > 0) return time / period;
  return kNoQuota;
}

}  // namespace

double seconds_since_1970() {
  using std::chrono::duration, std::chrono::steady_clock, std::chrono::system_clock;
  static const steady_clock::time_point first = steady_clock::now();
  static const double then = duration<double>(system_clock::now().time_since_epoch()).count();
  return then + duration<double>(steady_clock::now() - first).count();
}

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
  double least = kNoQuota;
  std::istringstream lines{std::string(groups)};  // number:controllers:path; version 2 has no controllers
  for (std::string line; std::getline(lines, line);) {
    const std::size_t controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string of = "," + line.substr(controllers, path - controllers - 1) + ",";
    if (of != ",," && of.find(",cpu,") == std::string::npos) continue;
    const fs::path top = of == ",," ? root : root + "/cpu";
    for (fs::path group = fs::path(line.substr(path)).relative_path();; group = group.parent_path()) {
      least = std::min(least, quota_of(top / group));
      if (group.empty()) break;
    }
  }
  return least < kNoQuota ? static_cast<int>(std::ceil(least)) : 0;
}

void allow_many_files() {
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::int64_t available_bytes() {
  const auto number_after = [](std::ifstream file, std::string_view name) {
    std::int64_t number = 0;
    for (std::string word; file >> word;)
      if (word == name && file >> number) break;
    return number;
  };
  const fs::path group = "/sys/fs/cgroup";  // inside a container its own control group is at the root
  const std::int64_t machine = number_after(std::ifstream("/proc/meminfo"), "MemAvailable:") * 1024;
  std::int64_t limit = 0, used = 0;
  std::ifstream most(group / "memory.max"), now(group / "memory.current");  // "max": no limit
  if (!(most >> limit && now >> used)) return machine;
  for (const char* cache : {"inactive_file", "active_file"})  // given up when memory is short
    used -= number_after(std::ifstream(group / "memory.stat"), cache);
  return std::clamp<std::int64_t>(limit - used, 0, machine);
}

double resident_mb() {
  std::ifstream sizes("/proc/self/statm");  // in pages: the address space, then what is in memory
  double all = 0, resident = 0;
  sizes >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
}

void keep_freed_memory() {
  constexpr int kMost = 32 << 20;  // that the C library accepts: larger blocks are always the system's own
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace snake_ddp::core
