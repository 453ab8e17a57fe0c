// A ring buffer of transitions in columns, allocated once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace snake_ddp::replay {

/// How a column is stored if it differs from its shown form: in fewer floats, with arbitrary bits.
struct Packing {
  std::int64_t floats = 0;
  std::function<void(const float* packed, float* row)> unpack;  // writes a whole row of the column
  std::function<bool(const float* packed)> possible = {};  // is `unpack` safe on this? for rows from files
  /// The same for rows on any device. Shapes  storage [capacity, floats], indices [B] int64, out [B, ...], overwritten.
  std::function<void(const at::Tensor& storage, const at::Tensor& indices, at::Tensor& out)> unpack_rows = {};
};

/// One column: floats of a transition, shown as `shape` (without the leading transition dimension).
struct Column {
  std::string name;
  std::vector<std::int64_t> shape;
  Packing packing = {};  // without `unpack`: stored as shown
};

/// Sampled rows of every column, in column order. Reused from call to call.
struct Batch {
  std::vector<at::Tensor> columns;  // each [B, ...] float32 in main memory
  bool pinned = false;              // in page-locked memory, from which a GPU can copy by itself
};

class Buffer;

/// The rows of a buffer at the time of the snapshot, oldest first, each row's columns side by side. Taking it copies
/// nothing: the buffer saves a row before overwriting it.
/// Threads     one thread reads it while another one appends to the buffer.
class Snapshot {
 public:
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t row_floats() const { return row_floats_; }

  /// The next rows, at most `most`; returns how many, 0 at the end.
  /// Shapes  out has room for most x row_floats.
  std::int64_t read(std::int64_t most, float* out);

 private:
  friend class Buffer;
  struct Kept;  // shared with the buffer
  std::shared_ptr<Kept> kept_;
  std::shared_ptr<void> at_end_;  // notifies the buffer when the last copy is gone
  std::vector<std::int64_t> widths_;
  std::vector<at::Tensor> storage_;
  std::int64_t rows_ = 0, row_floats_ = 0, capacity_ = 0;
};

class Buffer {
 public:
  /// Allocates capacity x the columns' payload in main memory; pages are allocated on first write.
  /// Throws  UsageError if there is not enough memory, with the size and the flag to lower.
  Buffer(std::vector<Column> columns, std::int64_t capacity);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// Number of transitions ever appended.
  [[nodiscard]] std::int64_t appended() const { return appended_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::int64_t payload_bytes() const;

  /// Appends one transition, overwriting the oldest when full.
  /// Shapes  values[c] points to the floats of column c as they are stored; they are copied.
  void append(std::span<const float* const> values);

  /// Floats stored per row, all columns together.
  [[nodiscard]] std::int64_t row_floats() const;
  /// The slot that the next row goes to.
  [[nodiscard]] std::int64_t next_slot() const { return next_; }

  /// The rows as they are now, packed.
  /// Cost        none at once; appending is slower by a lock while an earlier snapshot is being read.
  [[nodiscard]] Snapshot snapshot();

  /// Discards all rows; the next one goes to slot `first`, and `appended` counts those before it. With the
  /// numbers of another buffer of this capacity, and its rows appended oldest first, this one becomes a copy of it.
  void restart(std::int64_t first = 0, std::int64_t appended = 0);

  /// Appends one transition whose columns are side by side, in stored form.
  void append_row(const float* row);

  /// Is this row valid? Packed columns may hold data that cannot be unpacked.
  [[nodiscard]] bool possible(const float* row) const;

  /// Copies rows into `out`, unpacked.
  /// Shapes  indices [B] int64 on the CPU, each in 0..size-1.
  void gather(const at::Tensor& indices, Batch& out);

  /// The same of column `c` alone. Shapes  out [B, ...], made anew unless it has this shape.
  void gather_column(std::size_t c, const at::Tensor& indices, at::Tensor& out, bool pinned = false);

  /// The indices of all rows, oldest first. Shapes  [size] int64.
  [[nodiscard]] at::Tensor oldest_first() const;

  /// Draws `count` rows uniformly with replacement and gathers them. The choice is a function of (seed,
  /// draw, size).
  /// Throws      Bug if the buffer is empty.
  void sample(std::int64_t count, std::uint64_t seed, std::uint64_t draw, Batch& out);

  /// Draws `count` rows as `sample` does, and gathers with each the length - 1 previous rows of its game, window by
  /// window, oldest first. If the game, or what is left of it, has fewer, the window begins with copies that do not
  /// count. `back` is replaced by 1 if a row counts, else 0.
  /// Throws      Bug if the buffer is empty or has no column `back`, the distance to the game's previous row.
  void sample_windows(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t draw,
                      Batch& out);

  /// The storage of column `c`: [capacity, ...], or [capacity, packing.floats] if it is packed; rows size.. are
  /// unspecified.
  [[nodiscard]] const at::Tensor& column(std::size_t c) const { return storage_.at(c); }

 private:
  void put_by(Snapshot::Kept& kept) const;

  std::vector<Column> columns_;
  std::vector<std::int64_t> widths_;  // floats stored per row, by column
  std::vector<at::Tensor> storage_;
  std::shared_ptr<Snapshot::Kept> snapshot_;
  std::vector<const float*> row_;
  at::Tensor indices_;
  std::int64_t capacity_, size_ = 0, next_ = 0, appended_ = 0;
};

}  // namespace snake_ddp::replay
