#include "dist/shared_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/file_error.hpp"
#include "io/folders.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {

Access access_to(const std::string& folder, DistContext& context) {
  Access access;
  if (context.size() == 1) return access;
  std::string name, bytes;
  std::shared_ptr<void> token;
  if (context.is_main()) {
    std::random_device random;
    name = fmt::format(".rank_0_{:08x}{:08x}", random(), random());
    const auto remove = [path = folder + "/" + name](void*) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    };
    token = {nullptr, remove};
    try {
      io::write_file_atomically(folder + "/" + name, bytes);
    } catch (const core::FileError&) {
      name = "config.json";  // the disk is full: a resumed run has this file already
      if (!io::is_there(folder + "/" + name)) throw;
      bytes = io::read_file(folder + "/" + name);
    }
  }
  name = context.broadcast_text(name, context.deadline());
  bytes = context.broadcast_text(bytes, context.deadline());
  try {
    access.sees = io::read_file(folder + "/" + name) == bytes;
  } catch (const io::SystemError& e) {
    access.sees = false;
    if (!e.is_missing()) access.unreadable = e.what();
  }
  context.barrier("who sees the run's folder", context.deadline());
  return access;
}

std::string blind_ranks(bool sees, DistContext& context) {
  std::vector<std::string> blind;
  const std::vector<std::string> all = context.gather(sees ? "sees" : "", context.deadline());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) blind.push_back(fmt::format("{} on {}", rank, context.hosts()[rank]));
  }
  return fmt::format("{}", fmt::join(blind, ", "));
}

}  // namespace snake_ddp::dist
