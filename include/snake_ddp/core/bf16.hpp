// A processor's instructions for products of bfloat16.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18; AMD, "AMD64 Architecture
//          Programmer's Manual", volume 3, appendix D; Linux, Documentation/arch/x86/xstate.rst.
#pragma once

namespace snake_ddp::core {

/// kFloats   none: products of rounded float32.
/// kVectors  AVX512-BF16 (AMD from Zen 4 on; Intel).
/// kTiles    AMX with bfloat16 (Intel from Sapphire Rapids on).
enum class Bf16By { kFloats, kVectors, kTiles };

/// Whether this processor has them with the AVX-512 instructions that prepare the factors, the system lets this process use
/// them, and ATEN_CPU_CAPABILITY, which limits LibTorch's instructions (`avx2`), does not forbid them. The first call requests AMX
/// from the system.
bool has_bf16(Bf16By instructions);

/// The fastest ones here.
Bf16By fastest_bf16();

/// Before `--products bf16` on the CPU, which is slower by floats.
/// Throws  UsageError if there are only those.
void require_bf16();

}  // namespace snake_ddp::core
