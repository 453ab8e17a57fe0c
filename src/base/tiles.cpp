#include "snake_ddp/base/tiles.hpp"

#include "snake_ddp/base/error.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace snake_ddp::base {
namespace {

#if defined(__x86_64__) && defined(__linux__)
bool find_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvx512F = 1U << 16, kAvx512Bw = 1U << 30, kAvx512Vl = 1U << 31;  // leaf 7, ebx
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;                         // edx
  constexpr unsigned kAvx512Bf16 = 1U << 5;                                            // leaf 7, part 1, eax
  const auto has = [](unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; };
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || !has(b, kAvx512F | kAvx512Bw | kAvx512Vl) ||
      !has(d, kAmxBf16 | kAmxTile) || __get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || !has(a, kAvx512Bf16))
    return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool find_tiles() { return false; }
#endif

}  // namespace

bool has_bf16_tiles() {
  static const bool has = find_tiles();
  return has;
}

void require_bf16_tiles() {
  if (has_bf16_tiles()) return;
  throw UsageError(
      "--products bf16 on the CPU needs AMX, which this machine's processor or system does not offer: leave "
      "it out");
}

}  // namespace snake_ddp::base
