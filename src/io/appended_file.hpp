// A file that grows by whole records, also while the disk is full now and then.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "io/file_error.hpp"
#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::io {

/// Records are buffered and written from 64 KiB on. Those of a failed write are removed from the file and kept, up to 16 MiB.
struct AppendedFile {
  static constexpr std::size_t kBufferBytes = 64 * 1024, kMostBytes = 16 << 20;

  std::string path;
  core::Descriptor descriptor{-1};
  off_t written = 0;  // end of the last whole record
  std::string pending = {};
  bool failing = false;

  void add(std::string_view record) {
    if (pending.size() >= kMostBytes) return;
    pending += record;
    if (pending.size() >= kBufferBytes && !failing) write_pending();
  }

  /// Returns 0 or an errno value; after an error the file ends with a whole record and `pending` is as it was.
  int write_pending() {
    const int error = core::write_all(descriptor.get(), pending);
    failing = error != 0;
    if (failing) {
      if (::ftruncate(descriptor.get(), written) == 0) ::lseek(descriptor.get(), written, SEEK_SET);
      return error;
    }
    written += static_cast<off_t>(pending.size());
    pending.clear();
    return 0;
  }

  /// Throws  FileError.
  void flush() {
    if (const int error = write_pending(); error != 0) throw file_error("write", path, error);
  }
};

}  // namespace snake_ddp::io
