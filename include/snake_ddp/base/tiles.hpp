// AMX: a processor's instructions for tiles of matrices.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18; Linux,
//          Documentation/arch/x86/xstate.rst.
#pragma once

namespace snake_ddp::base {

/// Whether this processor has AMX's products of bfloat16 and the AVX-512 instructions that prepare them, and the system lets this
/// process use them, which the first call requests.
bool has_bf16_tiles();

/// Before `--products bf16` on the CPU, which is slower without.
/// Throws  UsageError without has_bf16_tiles().
void require_bf16_tiles();

}  // namespace snake_ddp::base
