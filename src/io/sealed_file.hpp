// Files whose length and checksum are stored elsewhere, so that a reader can verify that they are complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "snake_ddp/core/descriptor.hpp"

namespace snake_ddp::io {

/// Distinguishes a complete file from a damaged one.
struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  bool operator==(const Seal&) const = default;
};

/// Writes a new file piece by piece. Not atomic: for files in a folder that is renamed once it is complete.
/// Throws   FileError from each function; the file may then exist in part.
class SealedWriter {
 public:
  explicit SealedWriter(std::string path);

  void write(std::string_view bytes);
  /// Ensures that the bytes are on the disk.
  Seal close();

 private:
  std::string path_;
  core::Descriptor descriptor_;
  Seal seal_;
};

/// Reads a file piece by piece and compares it with its seal.
/// Throws   DamagedFile if it is missing or has another length or other bytes; SystemError if it cannot be read.
class SealedReader {
 public:
  SealedReader(std::string path, Seal seal);

  /// Fills `out`; the file must have that much left.
  void read(std::span<char> out);
  /// After all bytes were read.
  void close();

 private:
  std::string path_;
  Seal seal_, seen_;
  std::vector<char> buffer_;  // read ahead: rows are small
  std::span<const char> ahead_;
  core::Descriptor descriptor_;
};

/// Writes `bytes` and ensures that they are on the disk.
Seal write_sealed(const std::string& path, std::string_view bytes);

/// The whole file.
std::string read_sealed(const std::string& path, Seal seal);

}  // namespace snake_ddp::io
