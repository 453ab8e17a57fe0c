// Replay on one device: rows are written by kernels, drawn by kernels, and counted there, so the host waits for nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "snake_ddp/replay/buffer.hpp"
#include "snake_ddp/replay/device_counters.hpp"

namespace snake_ddp::replay {

class DeviceBuffer {
 public:
  /// Allocates capacity x the columns' payload on `device`. Packed columns need `unpack_rows`.
  /// Throws  UsageError when that much memory cannot be had, or the build has no kernels for `device`.
  DeviceBuffer(std::vector<Column> columns, std::int64_t capacity, at::Device device);

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] at::Device device() const { return counters_.device(); }
  /// [capacity, floats stored a row].
  [[nodiscard]] at::Tensor& column(std::size_t c) { return storage_.at(c); }
  /// int64 [kCounters] on the device: the slot of the next row, rows held, rows ever appended, draws so far. Who writes
  /// rows moves the first three on.
  [[nodiscard]] at::Tensor& counters() { return counters_; }

  /// Draws `count` rows as Buffer::sample does with the number of draws so far, and counts this one.
  /// Shapes  fills `out` with columns on the device, the same tensors in each call with the same `count`.
  /// Waits   not at all; there must be rows by the time it runs.
  void sample(std::int64_t count, std::uint64_t seed, Batch& out);

  /// Makes `buffer`, of the same columns and capacity, as this one. Waits for the device.
  void copy_to(Buffer& buffer) const;
  /// Makes this as `buffer`, with so many draws behind it.
  void copy_from(const Buffer& buffer, std::uint64_t draws);

 private:
  std::vector<Column> columns_;
  std::vector<at::Tensor> storage_;
  at::Tensor counters_, indices_;
  std::int64_t capacity_;
};

}  // namespace snake_ddp::replay
