#include "zip_directory.hpp"

#include <zlib.h>

#include <string>

#include "byte_reader.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::io {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64LocatorBytes = 20;
constexpr std::uint32_t kInExtraField = 0xffffffff;

struct CentralDirectory {
  std::uint64_t offset = 0;
  std::uint64_t entries = 0;
};

void expect(ByteReader& in, std::uint32_t signature, const char* what) {
  if (in.number<std::uint32_t>() != signature)
    throw damaged(std::string("no zip ") + what + " where one is expected");
}

CentralDirectory find_central_directory(std::string_view archive) {
  const std::size_t end = archive.rfind(std::string_view("PK\5\6", 4));
  if (end == std::string_view::npos || archive.size() - end < kEndBytes)
    throw damaged("the zip directory is missing");
  if (end >= kEnd64LocatorBytes) {
    ByteReader locator(archive, end - kEnd64LocatorBytes);
    if (locator.number<std::uint32_t>() == kEnd64Locator) {
      locator.take(4);  // disk
      ByteReader in(archive, locator.number<std::uint64_t>());
      expect(in, kEnd64, "end record");
      in.take(8 + 2 + 2 + 4 + 4 + 8);  // its size, versions, disks, entries on this disk
      const auto entries = in.number<std::uint64_t>();
      in.take(8);  // size
      return {in.number<std::uint64_t>(), entries};
    }
  }
  ByteReader in(archive, end);
  expect(in, kEnd, "end record");
  in.take(2 + 2 + 2);  // disks, entries on this disk
  const auto entries = in.number<std::uint16_t>();
  in.take(4);  // size
  return {in.number<std::uint32_t>(), entries};
}

// Values that do not fit 32 bits are in the extra field 1, in this order, if the header says kInExtraField.
void widen(std::string_view extra, std::uint64_t& size, std::uint64_t& stored_size, std::uint64_t& offset) {
  ByteReader in(extra);
  while (in.left() >= 4) {
    const auto id = in.number<std::uint16_t>();
    ByteReader field(in.take(in.number<std::uint16_t>()));
    if (id != 1) continue;
    for (std::uint64_t* value : {&size, &stored_size, &offset}) {
      if (*value == kInExtraField) *value = field.number<std::uint64_t>();
    }
    return;
  }
}

// Skips the local header at `offset`, whose name and extra field may be longer than those in the directory.
std::string_view stored_bytes(std::string_view archive, std::uint64_t offset, std::uint64_t size) {
  ByteReader in(archive, offset);
  expect(in, kLocalHeader, "entry");
  in.take(22);
  const auto name_bytes = in.number<std::uint16_t>();
  const auto extra_bytes = in.number<std::uint16_t>();
  in.take(name_bytes);
  in.take(extra_bytes);
  return in.take(size);
}

}  // namespace

ZipDirectory read_zip_directory(std::string_view archive) {
  const CentralDirectory directory = find_central_directory(archive);
  ByteReader in(archive, directory.offset);
  ZipDirectory entries;
  std::uint64_t stored = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    expect(in, kCentralHeader, "directory entry");
    in.take(4);  // versions
    const auto flags = in.number<std::uint16_t>();
    const auto method = in.number<std::uint16_t>();
    in.take(4);  // time
    const auto crc32 = in.number<std::uint32_t>();
    std::uint64_t stored_size = in.number<std::uint32_t>();
    std::uint64_t size = in.number<std::uint32_t>();
    const auto name_bytes = in.number<std::uint16_t>();
    const auto extra_bytes = in.number<std::uint16_t>();
    const auto comment_bytes = in.number<std::uint16_t>();
    in.take(8);  // disk, attributes
    std::uint64_t offset = in.number<std::uint32_t>();
    const std::string_view name = in.take(name_bytes);
    widen(in.take(extra_bytes), size, stored_size, offset);
    in.take(comment_bytes);
    const bool plain = method == 0 && (flags & 1) == 0 && size == stored_size;
    const std::string_view bytes = stored_bytes(archive, offset, stored_size);
    // Entries that share bytes would let a small file demand as many checksums of all of it as it has entries.
    stored += bytes.size();
    if (stored > archive.size()) throw damaged("entries of the zip archive overlap");
    if (!entries.emplace(name, ZipEntry{bytes, crc32, plain}).second) {
      throw damaged("entry '" + printable(name) + "' occurs twice");
    }
  }
  return entries;
}

std::string_view checked_bytes(const ZipDirectory::value_type& entry) {
  const auto& [name, content] = entry;
  if (!content.plain) {
    throw core::FileError(
        "entry '" + printable(name) +
        "' is compressed or encrypted, which torch.save never does: save the weights again");
  }
  const auto* data = reinterpret_cast<const Bytef*>(content.bytes.data());
  if (content.crc32 != 0 && ::crc32_z(0, data, content.bytes.size()) != content.crc32) {
    throw damaged("checksum of entry '" + printable(name) + "' is wrong");
  }
  return content.bytes;
}

}  // namespace snake_ddp::io
