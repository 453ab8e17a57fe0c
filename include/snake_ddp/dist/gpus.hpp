// Why a process sees no GPU.
#pragma once

#include <string>

namespace snake_ddp::dist {

/// A sentence that says it, from the versions of CUDA that the driver serves and that this build needs, as the runtime
/// tells them: 1000 * major + 10 * minor, 0 where there is none.
std::string why_no_gpu(int driver, int runtime);
/// The same of this process.
std::string why_no_gpu();

}  // namespace snake_ddp::dist
