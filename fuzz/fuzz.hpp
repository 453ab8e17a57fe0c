// Code that the targets share. A target passes bytes to one reader of outside files; the reader may return a result
// or throw FileError or UsageError. Anything else ends the process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace snake_ddp::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// For LLVMFuzzerTestOneInput to return. Any other exception leaves a noexcept function: std::terminate.
template <class Read>
int read_or_refuse(const Read& read) noexcept {
  try {
    read();
  } catch (const core::FileError&) {
  } catch (const core::UsageError&) {
  }
  return 0;
}

/// A file in memory that readers open by its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    SD_CHECK(descriptor_ >= 0, "no memory file");
    SD_CHECK(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
             "memory file cut short");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace snake_ddp::fuzz
