#include "torch_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "byte_reader.hpp"
#include "io/state_dict.hpp"
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

struct ZipEntry {
  std::string_view bytes;
  std::uint32_t crc32 = 0;  // 0 if the writer omitted it (torch.serialization.set_crc32_options)
  bool plain = true;        // neither compressed nor encrypted
};

// Views of the archive.
using ZipDirectory = std::map<std::string_view, ZipEntry>;

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

// The entry's bytes, after their checksum was verified.
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

void read_zip_file(std::string_view bytes, TorchFile& file) {
  constexpr std::string_view kPickleName = "/data.pkl";
  const ZipDirectory entries = read_zip_directory(bytes);
  const auto pickle = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    const std::string_view name = entry.first;
    return name.size() > kPickleName.size() && name.find('/') == name.size() - kPickleName.size() &&
           name.substr(name.find('/')) == kPickleName;
  });
  if (pickle == entries.end())
    throw core::FileError("it is a zip archive, but torch.save did not write it (no data.pkl)");
  const std::string root(pickle->first.substr(0, pickle->first.find('/') + 1));
  if (entries.contains(root + "constants.pkl")) {
    throw core::FileError(
        "it is a TorchScript archive: save only the weights, torch.save(model.state_dict(), path)");
  }
  if (const auto order = entries.find(root + "byteorder");
      order != entries.end() && checked_bytes(*order) != "little") {
    throw core::FileError("it was written on a big-endian machine: load it in Python and save it again");
  }
  if (const auto record = entries.find(root + kRecordName); record != entries.end())
    file.record = checked_bytes(*record);
  ByteReader in(checked_bytes(*pickle));
  file.root = file.pickles.read(in);
  for (const StorageRef& storage : file.pickles.storages()) {
    if (file.storages.contains(storage.key)) continue;
    const auto entry = entries.find(root + "data/" + std::string(storage.key));
    if (entry == entries.end()) throw damaged("storage '" + printable(storage.key) + "' is missing");
    file.storages.emplace(storage.key, checked_bytes(*entry));
  }
}

std::uint64_t bytes_of(const StorageRef& storage) {
  return static_cast<std::uint64_t>(storage.numel) * c10::elementSize(storage.type);
}

// Before PyTorch 1.6: pickles of a magic number, the format's version, machine information, the value and
// the storages' keys, then for each key a count and the bytes.
bool is_legacy_magic(const PickleValue& value) {
  constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  const auto* integer = std::get_if<WideInteger>(&value);
  return integer != nullptr && integer->bytes == kMagic;
}

void expect_little_endian(const PickleValue& facts) {
  for (const auto& [key, value] : expect_type<Mapping*>(facts, "machine information")->items) {
    const auto* name = std::get_if<std::string_view>(&key);
    if (name != nullptr && *name == "little_endian" && !expect_type<bool>(value, "a truth value")) {
      throw core::FileError("it was written on a big-endian machine: load it in Python and save it again");
    }
  }
}

void read_legacy_file(std::string_view bytes, TorchFile& file) {
  ByteReader in(bytes);
  if (!is_legacy_magic(file.pickles.read(in)))
    throw core::FileError("it is a pickle, but torch.save did not write it");
  if (expect_type<std::int64_t>(file.pickles.read(in), "the format's version") != 1001) {
    throw damaged("unknown version of the format before PyTorch 1.6");
  }
  expect_little_endian(file.pickles.read(in));
  file.root = file.pickles.read(in);

  std::map<std::string_view, const StorageRef*> known;
  for (const StorageRef& storage : file.pickles.storages()) known.emplace(storage.key, &storage);
  const PickleValue keys = file.pickles.read(in);
  for (const PickleValue& item : expect_type<Sequence*>(keys, "the storages' keys")->items) {
    const auto storage = known.find(expect_type<std::string_view>(item, "a storage's key"));
    if (storage == known.end()) throw damaged("unused storage bytes");
    if (in.number<std::int64_t>() != storage->second->numel) throw damaged("a storage of another size");
    file.storages.emplace(storage->first, in.take(bytes_of(*storage->second)));
  }
}

}  // namespace

void read_torch_file(std::string_view bytes, TorchFile& file) {
  if (bytes.empty()) throw core::FileError("it is empty");
  if (bytes.substr(0, 2) == "PK") return read_zip_file(bytes, file);
  if (bytes[0] == '\x80') return read_legacy_file(bytes, file);
  throw core::FileError("it is not a file that torch.save wrote");
}

}  // namespace snake_ddp::io
