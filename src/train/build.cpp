#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "snake_ddp/base/hash.hpp"
#include "snake_ddp/train/options.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::train {

extern const char* const kSourcesId;  // made by cmake/sources_id.cmake

std::string version_text() { return fmt::format("snake_ddp {} with LibTorch {}", SD_VERSION, TORCH_VERSION); }

std::string build_text() {
  TrainOptions options;
  std::uint64_t schema = base::kHashStart;
  for (const config::Field& field : fields(options))
    schema = base::add_to_hash(schema, fmt::format("{} {};", field.name, field.target.index()));
  return fmt::format("{}, settings {:08x}, sources {}", version_text(), schema >> 32U, kSourcesId);
}

}  // namespace snake_ddp::train
