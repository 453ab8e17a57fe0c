// Reads zip archives as torch.save writes them: the entries that matter are stored, not compressed.
// LibTorch's own reader is built without checksum tests: it loads a file with a flipped bit as if nothing
// were wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace snake_ddp::io {

struct ZipEntry {
  std::string_view bytes;
  std::uint32_t crc32 = 0;  // 0 if the writer omitted it (torch.serialization.set_crc32_options)
  bool plain = true;        // neither compressed nor encrypted
};

using ZipDirectory = std::map<std::string_view, ZipEntry>;

/// Owner   names and bytes are views of `archive`.
/// Throws  FileError if the directory is damaged.
ZipDirectory read_zip_directory(std::string_view archive);

/// The entry's bytes, after their checksum was verified.
/// Throws  FileError if it is wrong or the entry is compressed or encrypted.
std::string_view checked_bytes(const ZipDirectory::value_type& entry);

}  // namespace snake_ddp::io
