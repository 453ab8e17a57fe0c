#include "snake_ddp/io/sealed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include <filesystem>
#include <utility>

#include "descriptor.hpp"
#include "snake_ddp/io/file_error.hpp"

namespace snake_ddp::io {
namespace {

std::uint32_t crc_of(std::uint32_t before, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

SealedWriter::SealedWriter(std::string path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw file_error("write", path_, errno);
}

SealedWriter::~SealedWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SealedWriter::write(std::string_view bytes) {
  const int error = write_all(descriptor_, bytes);
  if (error != 0) throw file_error("write", path_, error);
  seal_.bytes += bytes.size();
  seal_.crc32 = crc_of(seal_.crc32, bytes);
}

Seal SealedWriter::close() {
  if (::fsync(descriptor_) != 0) throw file_error("write", path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) throw file_error("write", path_, errno);
  return seal_;
}

SealedReader::SealedReader(std::string path, Seal seal)
    : path_(std::move(path)), seal_(seal), file_(path_, std::ios::binary) {
  if (!file_) throw file_error("read", path_, errno);
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (error) throw file_error("read", path_, error.value());
  if (bytes != seal_.bytes) {
    throw base::FileError(fmt::format("{} has {} bytes and should have {}: it was cut short or written over",
                                      path_, bytes, seal_.bytes));
  }
}

void SealedReader::read(std::span<char> out) {
  if (!file_.read(out.data(), static_cast<std::streamsize>(out.size())))
    throw base::FileError(fmt::format("{} ends too early, or its disk cannot be read", path_));
  seen_.bytes += out.size();
  seen_.crc32 = crc_of(seen_.crc32, {out.data(), out.size()});
}

void SealedReader::close() {
  if (seen_ != seal_)
    throw base::FileError(fmt::format("{}: its checksum is {:08x} and should be {:08x}: it is damaged", path_,
                                      seen_.crc32, seal_.crc32));
}

Seal write_sealed(const std::string& path, std::string_view bytes) {
  SealedWriter writer(path);
  writer.write(bytes);
  return writer.close();
}

std::string read_sealed(const std::string& path, Seal seal) {
  SealedReader reader(path, seal);
  std::string bytes(seal.bytes, '\0');
  reader.read(bytes);
  reader.close();
  return bytes;
}

}  // namespace snake_ddp::io
