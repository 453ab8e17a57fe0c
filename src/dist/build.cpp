#include "dist/build.hpp"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

namespace snake_ddp::dist {

extern const char* const kSourcesId;  // made by cmake/sources_id.cmake

std::string version_text() { return fmt::format("snake_ddp {} with LibTorch {}", SD_VERSION, TORCH_VERSION); }

std::string build_text() { return fmt::format("{}, sources {}", version_text(), kSourcesId); }

}  // namespace snake_ddp::dist
