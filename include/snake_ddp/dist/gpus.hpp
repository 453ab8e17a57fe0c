// Why a process sees no GPU.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// One sentence with the reason, derived from the CUDA versions that the driver supports and that this build needs, as
/// reported by the runtime: 1000 * major + 10 * minor, 0 if there is none.
std::string why_no_gpu(int driver, int runtime);
/// The same for this process.
std::string why_no_gpu();

}  // namespace snake_ddp::dist
