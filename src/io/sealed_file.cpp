#include "io/sealed_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "io/file_error.hpp"
#include "io/open_file.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::io {
namespace {

constexpr std::size_t kSealBuffer = 1 << 16;
constexpr std::uint64_t kMostSealedBytes = std::uint64_t{1}
                                           << 34U;  // read at once: 16 GiB of one rank's tensors

std::uint32_t crc_of(std::uint32_t before, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

SealedWriter::SealedWriter(std::string path) : path_(std::move(path)), descriptor_(create_file(path_)) {}

void SealedWriter::write(std::string_view bytes) {
  const int error = core::write_all(descriptor_.get(), bytes);
  if (error != 0) throw file_error("write", path_, error);
  seal_.bytes += bytes.size();
  seal_.crc32 = crc_of(seal_.crc32, bytes);
}

Seal SealedWriter::close() {
  if (::fsync(descriptor_.get()) != 0) throw file_error("write", path_, errno);
  if (const int error = descriptor_.close(); error != 0) throw file_error("write", path_, error);
  return seal_;
}

SealedReader::SealedReader(std::string path, Seal seal)
    : path_(std::move(path)), seal_(seal), buffer_(kSealBuffer), descriptor_(-1) {
  try {
    descriptor_ = open_to_read(path_);
  } catch (const SystemError& e) {
    if (e.number != ENOENT) throw;
    throw DamagedFile(fmt::format("{} is missing: it was removed", path_));
  }
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) throw file_error("read", path_, errno);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes == seal_.bytes) return;
  throw DamagedFile(fmt::format("{} has {}, expected {}: it was truncated or overwritten", path_,
                                core::counted(bytes, "byte"), seal_.bytes));
}

void SealedReader::read(std::span<char> out) {
  for (std::span<char> left = out; !left.empty();) {
    if (ahead_.empty()) {
      const ssize_t n = ::read(descriptor_.get(), buffer_.data(), buffer_.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw file_error("read", path_, errno);
      if (n == 0) throw DamagedFile(fmt::format("{} ends too early: it is being truncated", path_));
      ahead_ = {buffer_.data(), static_cast<std::size_t>(n)};
    }
    const std::size_t now = std::min(left.size(), ahead_.size());
    std::memcpy(left.data(), ahead_.data(), now);
    left = left.subspan(now);
    ahead_ = ahead_.subspan(now);
  }
  seen_.bytes += out.size();
  seen_.crc32 = crc_of(seen_.crc32, {out.data(), out.size()});
}

void SealedReader::close() {
  if (seen_ != seal_)
    throw DamagedFile(fmt::format("{}: its checksum is {:08x}, expected {:08x}: it is damaged", path_,
                                  seen_.crc32, seal_.crc32));
}

Seal write_sealed(const std::string& path, std::string_view bytes) {
  SealedWriter writer(path);
  writer.write(bytes);
  return writer.close();
}

std::string read_sealed(const std::string& path, Seal seal) {
  SealedReader reader(path, seal);
  if (seal.bytes > kMostSealedBytes)
    throw core::FileError(
        fmt::format("{} has {}, more than any checkpoint's", path, core::counted(seal.bytes, "byte")));
  std::string bytes(seal.bytes, '\0');
  reader.read(bytes);
  reader.close();
  return bytes;
}

}  // namespace snake_ddp::io
