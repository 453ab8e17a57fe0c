#include "snake_ddp/core/bf16.hpp"

#include <cstdlib>
#include <string_view>

#include "snake_ddp/core/error.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace snake_ddp::core {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// GCC's builtin also asks whether the system saves these registers.
bool find_vectors() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvx512Bf16 = 1U << 5;  // leaf 7, part 1, eax
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kAvx512Bf16) != 0;
}

bool find_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmx = 1U << 22 | 1U << 24;  // leaf 7, edx: AMX-BF16, AMX-TILE
  if (!find_vectors() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmx) != kAmx) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool find_vectors() { return false; }
bool find_tiles() { return false; }
#endif

// Whether LibTorch was told to leave AVX-512 alone.
bool is_limited() {
  const char* const limit = std::getenv("ATEN_CPU_CAPABILITY");
  return limit != nullptr && !std::string_view(limit).starts_with("avx512");
}

}  // namespace

bool has_bf16(Bf16By instructions) {
  static const bool limited = is_limited(), vectors = !limited && find_vectors(),
                    tiles = !limited && find_tiles();
  return instructions == Bf16By::kFloats || (instructions == Bf16By::kTiles ? tiles : vectors);
}

Bf16By fastest_bf16() {
  for (const Bf16By instructions : {Bf16By::kTiles, Bf16By::kVectors})
    if (has_bf16(instructions)) return instructions;
  return Bf16By::kFloats;
}

void require_bf16() {
  if (fastest_bf16() != Bf16By::kFloats) return;
  throw UsageError(
      "--products bf16 on the CPU needs AMX or AVX512-BF16, which this machine's processor or system does "
      "not "
      "offer: leave it out");
}

}  // namespace snake_ddp::core
