// AMX: a processor's instructions for tiles of matrices.
// Follows  Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18; Linux,
//          Documentation/arch/x86/xstate.rst.
#pragma once

namespace snake_ddp::base {

/// Whether this processor has AMX's products of bfloat16 and the AVX-512 instructions that prepare them, and the system lets this
/// process use them, which the first call requests.
bool has_bf16_tiles();

/// What a user reads where it has not.
inline constexpr const char* kNoBf16Tiles =
    "--products bf16 on the CPU needs AMX, which this machine's processor or system does not offer: leave it "
    "out";

}  // namespace snake_ddp::base
