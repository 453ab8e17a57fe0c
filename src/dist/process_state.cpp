#include "process_state.hpp"

#include <fmt/format.h>

#include <fstream>

namespace snake_ddp::dist {
namespace {

constexpr const char* kEnded = "has ended";

}  // namespace

std::string process_state(long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return kEnded;
  const std::size_t name_end = line.rfind(')');  // the name may contain blanks and brackets
  const char state = name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '?';
  if (state == 'Z' || state == 'X') return kEnded;
  if (state == 'T' || state == 't') return "is stopped by a signal";
  return "is alive but did not reach this call";
}

bool process_has_ended(long pid) { return process_state(pid) == kEnded; }

}  // namespace snake_ddp::dist
