// Replay on one device: kernels write, draw and count the rows, so the host does not wait.
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
  /// Throws  UsageError if there is not enough memory, or the build has no kernels for `device`.
  DeviceBuffer(std::vector<Column> columns, std::int64_t capacity, at::Device device);

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] at::Device device() const { return counters_.device(); }
  /// [capacity, floats stored per row].
  [[nodiscard]] at::Tensor& column(std::size_t c) { return storage_.at(c); }
  /// int64 [kCounters] on the device: the slot of the next row, rows held, rows ever appended, draws so far. A writer of
  /// rows advances the first three.
  [[nodiscard]] at::Tensor& counters() { return counters_; }

  /// Draws `count` rows like Buffer::sample with the current number of draws, and increments that.
  /// Shapes  fills `out` with columns on the device, the same tensors in each call with the same `count`.
  /// Waits   not at all; replay must hold rows by the time it runs.
  void sample(std::int64_t count, std::uint64_t seed, Batch& out);

  /// Copies this into `buffer`, which has the same columns and capacity. Waits for the device.
  void copy_to(Buffer& buffer) const;
  /// Copies `buffer` into this, and sets the number of draws so far.
  void copy_from(const Buffer& buffer, std::uint64_t draws);

 private:
  std::vector<Column> columns_;
  std::vector<at::Tensor> storage_;
  at::Tensor counters_, indices_;
  std::int64_t capacity_;
};

}  // namespace snake_ddp::replay
