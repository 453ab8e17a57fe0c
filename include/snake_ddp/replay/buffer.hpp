// A ring buffer of transitions in columns, allocated once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace snake_ddp::replay {

/// One column: `size` floats a transition, shown as `shape` (without the leading transition dimension).
struct Column {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Sampled rows of every column, in column order. Reused from call to call.
struct Batch {
  std::vector<at::Tensor> columns;  // each [B, ...] float32 in main memory
};

class Buffer {
 public:
  /// Allocates capacity x the columns' payload in main memory; pages are taken as they are first written.
  /// Throws  UsageError when that much memory cannot be had, with the size and the flag to lower.
  Buffer(std::vector<Column> columns, std::int64_t capacity);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Transitions ever appended.
  [[nodiscard]] std::int64_t appended() const { return appended_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::int64_t payload_bytes() const;

  /// Appends one transition, overwriting the oldest when full.
  /// Shapes  values[c] points to the floats of column c; they are copied.
  void append(std::span<const float* const> values);

  /// Copies rows into `out`.
  /// Shapes  indices [B] int64 on the CPU, each in 0..size-1.
  void gather(const at::Tensor& indices, Batch& out);

  /// Draws `count` rows uniformly with replacement and gathers them. Which rows is a function of (seed,
  /// draw, size).
  /// Throws      Bug when the buffer is empty.
  void sample(std::int64_t count, std::uint64_t seed, std::uint64_t draw, Batch& out);

  /// The storage of column `c`: [capacity, ...]; rows size.. are unspecified.
  [[nodiscard]] const at::Tensor& column(std::size_t c) const { return storage_.at(c); }

 private:
  std::vector<Column> columns_;
  std::vector<std::int64_t> widths_;  // floats a row, by column
  std::vector<at::Tensor> storage_;
  at::Tensor indices_;
  std::int64_t capacity_, size_ = 0, next_ = 0, appended_ = 0;
};

}  // namespace snake_ddp::replay
