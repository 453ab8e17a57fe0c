// Why a process sees no GPU.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// What is wrong and what to do, without a full stop, derived from the CUDA versions that the driver supports and that this build
/// needs, as reported by the runtime: 1000 * major + 10 * minor, 0 if there is none.
std::string why_no_gpu(int driver, int runtime);
/// The same for this process.
std::string why_no_gpu();

/// Why a process that may use either is on the CPU; calm where no GPU is to be expected: no device nodes (/dev/nvidia*), or
/// CUDA_VISIBLE_DEVICES, `visible`, hides them.
std::string why_on_cpu(int driver, int runtime, bool has_nodes, const char* visible);
/// The same for this process.
std::string why_on_cpu();

}  // namespace snake_ddp::dist
