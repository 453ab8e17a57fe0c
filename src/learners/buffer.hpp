// A ring buffer of transitions in columns, on one device, allocated once. Kernels may write and draw its rows: the counters are on
// the device, too, so that the host does not wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "learners/counters.hpp"

namespace snake_ddp::learners {

/// How a column is stored if it differs from its shown form: in fewer floats, with arbitrary bits.
struct Packing {
  std::int64_t floats = 0;
  std::function<bool(const float* packed)> possible = {};  // is `unpack` safe on this? for rows from files
  /// Shapes  storage [capacity, floats], indices [B] int64, out [B, ...], overwritten; on any device.
  std::function<void(const at::Tensor& storage, const at::Tensor& indices, at::Tensor& out)> unpack = {};
};

/// One column: floats of a transition, shown as `shape` (without the leading transition dimension).
struct Column {
  std::string name;
  std::vector<std::int64_t> shape;
  Packing packing = {};  // without `unpack`: stored as shown
};

/// Sampled rows of every column, in column order. Reused from call to call.
struct Batch {
  std::vector<at::Tensor> columns;  // each [B, ...] float32
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
  /// Allocates capacity x the columns' payload; in main memory, pages are allocated on first write.
  /// Throws  UsageError if there is not enough memory, with the size and the flag to lower, or the build has no kernels for
  ///         `device`.
  Buffer(std::vector<Column> columns, std::int64_t capacity, at::Device device = at::kCPU);

  [[nodiscard]] at::Device device() const { return counters_.device(); }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::int64_t payload_bytes() const;
  // These three wait for the device.
  [[nodiscard]] std::int64_t size() const { return counter(kSize); }
  /// Number of transitions ever appended.
  [[nodiscard]] std::int64_t appended() const { return counter(kAppended); }
  /// The slot that the next row goes to.
  [[nodiscard]] std::int64_t next_slot() const { return counter(kNext); }

  /// int64 [kCounters] on the device. A kernel that writes rows advances the first three.
  [[nodiscard]] const at::Tensor& counters() const { return counters_; }
  /// To be called before kernels write the next `rows` rows: a snapshot in main memory keeps what they overwrite.
  void make_room(std::int64_t rows);
  /// Batches drawn so far.
  void set_draws(std::int64_t draws) { counters_.select(0, kDraw).fill_(draws); }

  /// Appends one transition, overwriting the oldest when full. On a GPU it is there after `settle`.
  /// Shapes  values[c] points to the floats of column c as they are stored; they are copied.
  void append(std::span<const float* const> values);
  /// On a GPU: copies what was appended since `restart`.
  void settle();

  /// Floats stored per row, all columns together.
  [[nodiscard]] std::int64_t row_floats() const;

  /// The rows as they are now, packed.
  /// Cost        none at once; appending is slower by a lock while an earlier snapshot is being read. From a GPU: a copy.
  [[nodiscard]] Snapshot snapshot();

  /// Discards all rows; the next one goes to slot `first`, and `appended` counts those before it. With the
  /// numbers of another buffer of this capacity, and its rows appended oldest first, this one becomes a copy of it.
  void restart(std::int64_t first = 0, std::int64_t appended = 0);

  /// Appends one transition whose columns are side by side, in stored form.
  void append_row(const float* row);

  /// Is this row valid? Packed columns may hold data that cannot be unpacked.
  [[nodiscard]] bool possible(const float* row) const;

  /// Copies rows into `out`, unpacked; the same tensors in each call with as many.
  /// Shapes  indices [B] int64 on the device, each in 0..size-1.
  void gather(const at::Tensor& indices, Batch& out) const;

  /// Draws `count` rows uniformly with replacement, counts the draw, and gathers them. The choice is a function of (seed,
  /// draws so far, size). Queued; there must be rows by the time it runs.
  void sample(std::int64_t count, std::uint64_t seed, Batch& out);

  /// In main memory: draws `count` rows as `sample` does, and gathers with each the length - 1 previous rows of its game, window by
  /// window, oldest first. If the game, or what is left of it, has fewer, the window begins with copies that do not
  /// count. `back` is replaced by 1 if a row counts, else 0.
  /// Throws      Bug if the buffer is empty or has no column `back`, the distance to the game's previous row.
  void sample_windows(std::int64_t count, std::int64_t length, std::uint64_t seed, Batch& out);

  /// The storage of column `c`: [capacity, ...], or [capacity, packing.floats] if it is packed; rows size.. are
  /// unspecified.
  [[nodiscard]] const at::Tensor& column(std::size_t c) const { return storage_.at(c); }

 private:
  [[nodiscard]] std::int64_t counter(Counter which) const {
    return counters_.to(at::kCPU).data_ptr<std::int64_t>()[which];
  }
  void put_by(Snapshot::Kept& kept, std::int64_t slot) const;
  [[nodiscard]] at::Tensor& drawn(std::int64_t count);

  std::vector<Column> columns_;
  std::vector<std::int64_t> widths_;  // floats stored per row, by column
  std::vector<at::Tensor> storage_;
  std::shared_ptr<Snapshot::Kept> snapshot_;
  std::unique_ptr<Buffer> arriving_;  // in main memory, of one on a GPU
  std::vector<const float*> row_;
  at::Tensor counters_, indices_;
  std::int64_t capacity_;
};

/// Observations in [-1, 1) with their constant 1, everything else in [0, 1). Draws from ATen's generator of that device.
Batch random_batch(const std::vector<Column>& columns, std::int64_t size, at::Device device = at::kCPU);

}  // namespace snake_ddp::learners
