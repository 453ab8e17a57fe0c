// TensorBoard's event files: records of length, masked CRC-32C, Event, masked CRC-32C.
// Follows  TensorFlow's event.proto, summary.proto and record_writer.cc.
#pragma once

#include <array>
#include <cstdint>
#include <protozero/types.hpp>
#include <string_view>

namespace snake_ddp::files {

enum EventField : protozero::pbf_tag_type {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
enum SummaryField : protozero::pbf_tag_type { kValue = 1 };
enum SessionField : protozero::pbf_tag_type { kStatus = 1 };
enum ValueField : protozero::pbf_tag_type { kTag = 1, kSimpleValue = 2 };
inline constexpr std::int32_t kStart = 1;  // a session's status
inline constexpr const char* kEventVersion = "brain.Event:2";

// CRC-32C (RFC 3720, B.4): the polynomial 0x1EDC6F41, lowest bit first. Rotated and shifted, because the CRC of data that
// contains CRCs is a poor checksum.
inline std::uint32_t masked_crc(std::string_view bytes) {
  static constexpr auto kOfByte = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
      table[byte] = byte;
      for (int bit = 0; bit < 8; ++bit)
        table[byte] = table[byte] >> 1U ^ ((table[byte] & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    return table;
  }();
  std::uint32_t value = 0xFFFFFFFFU;
  for (const char byte : bytes)
    value = value >> 8U ^ kOfByte[(value ^ static_cast<unsigned char>(byte)) & 0xFFU];
  value = ~value;
  return ((value >> 15U) | (value << 17U)) + 0xa282ead8U;
}

}  // namespace snake_ddp::files
