#include "learners/buffer.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "draw_rows.hpp"
#include "nets/device_work.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::learners {
namespace {

std::vector<std::int64_t> stored_shape(const Column& c) {
  return c.packing.unpack ? std::vector<std::int64_t>{c.packing.floats} : c.shape;
}

std::vector<std::int64_t> with_leading(std::int64_t rows, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> sizes = {rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

}  // namespace

struct Snapshot::Kept {
  std::int64_t rows, first;  // of the snapshot; the first one's slot
  std::mutex mutex{};
  std::int64_t read = 0;  // rows that the reader has taken
  std::unordered_map<std::int64_t, std::vector<float>>
      put_by{};                      // by row number, those overwritten before they were read
  std::atomic<bool> dropped{false};  // there is no reader any more
};

std::int64_t Snapshot::read(std::int64_t most, float* out) {
  const std::lock_guard guard(kept_->mutex);
  const std::int64_t count = std::min(most, kept_->rows - kept_->read);
  for (std::int64_t row = kept_->read; row < kept_->read + count; ++row, out += row_floats_) {
    if (const auto found = kept_->put_by.find(row); found != kept_->put_by.end()) {
      std::copy(found->second.begin(), found->second.end(), out);
      kept_->put_by.erase(found);
      continue;
    }
    const std::int64_t slot = (kept_->first + row) % capacity_;
    float* to = out;
    for (std::size_t c = 0; c < widths_.size(); to += widths_[c], ++c) {
      std::memcpy(to, storage_[c].const_data_ptr<float>() + slot * widths_[c],
                  static_cast<std::size_t>(widths_[c]) * sizeof(float));
    }
  }
  kept_->read += count;
  return count;
}

Buffer::Buffer(std::vector<Column> columns, std::int64_t capacity, at::Device device)
    : columns_(std::move(columns)), capacity_(capacity) {
  SD_CHECK(capacity > 0, "a replay buffer needs a capacity of 1 or more");
  if (!nets::kHaveKernels && !device.is_cpu())
    throw core::UsageError(
        "--boards device: this build has no kernels for GPUs, as CMake found no nvcc; install the wheels of "
        "launch/requirements-cuda.txt and build again, or use --boards host");
  for (const Column& c : columns_) widths_.push_back(c10::multiply_integers(stored_shape(c)));
  const auto here = at::TensorOptions().dtype(at::kFloat).device(device);
  try {
    for (const Column& c : columns_)
      storage_.push_back(at::empty(with_leading(capacity, stored_shape(c)), here));
  } catch (const c10::Error& e) {
    throw core::UsageError(
        fmt::format("not enough memory on {} for a replay buffer of {} ({} MiB); lower "
                    "--buffer_size. The system says: {}",
                    device.str(), core::counted(capacity, "transition"), payload_bytes() >> 20,
                    e.what_without_backtrace()));
  }
  counters_ = at::zeros({kCounters}, here.dtype(at::kLong));
}

std::int64_t Buffer::payload_bytes() const {
  return std::accumulate(widths_.begin(), widths_.end(), std::int64_t{0}) * capacity_ *
         static_cast<std::int64_t>(sizeof(float));
}

std::int64_t Buffer::row_floats() const {
  return std::accumulate(widths_.begin(), widths_.end(), std::int64_t{0});
}

Snapshot Buffer::snapshot() {
  SD_CHECK(!snapshot_ || snapshot_->dropped,
           "a buffer has one snapshot at a time, and the last one is still there");
  const std::int64_t rows = size();
  Snapshot s;
  s.kept_ = std::make_shared<Snapshot::Kept>(rows, rows == capacity_ ? next_slot() : 0);
  s.at_end_ = std::shared_ptr<void>(
      nullptr, [kept = s.kept_](void*) { kept->dropped.store(true, std::memory_order_release); });
  s.widths_ = widths_;
  for (const at::Tensor& storage : storage_) s.storage_.push_back(storage.to(at::kCPU));
  s.rows_ = rows;
  s.row_floats_ = row_floats();
  s.capacity_ = capacity_;
  snapshot_ = s.kept_;
  return s;
}

// Called before a slot of a full buffer is overwritten.
void Buffer::put_by(Snapshot::Kept& kept, std::int64_t slot) const {
  const std::lock_guard guard(kept.mutex);
  const std::int64_t row = (slot - kept.first + capacity_) % capacity_;
  if (row < kept.read || row >= kept.rows || kept.put_by.contains(row)) return;
  std::vector<float> values;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const float* from = storage_[c].const_data_ptr<float>() + slot * widths_[c];
    values.insert(values.end(), from, from + widths_[c]);
  }
  kept.put_by.emplace(row, std::move(values));
}

void Buffer::make_room(std::int64_t rows) {
  if (snapshot_ && snapshot_->dropped.load(std::memory_order_acquire)) snapshot_.reset();
  if (!snapshot_ || !device().is_cpu()) return;
  for (std::int64_t k = 0; k < std::min(rows, capacity_); ++k)
    put_by(*snapshot_, (next_slot() + k) % capacity_);
}

void Buffer::restart(std::int64_t first, std::int64_t appended) {
  SD_CHECK(first >= 0 && first < capacity_, fmt::format("slot {} of {}", first, capacity_));
  counters_.narrow(0, 0, kDraw).copy_(at::tensor({first, std::int64_t{0}, appended}, at::kLong));
  arriving_.reset();
}

void Buffer::settle() {
  if (arriving_ == nullptr) return;
  for (std::size_t c = 0; c < storage_.size(); ++c)
    storage_[c].narrow(0, 0, arriving_->size()).copy_(arriving_->storage_[c].narrow(0, 0, arriving_->size()));
  counters_.narrow(0, 0, kDraw).copy_(arriving_->counters_.narrow(0, 0, kDraw));
  arriving_.reset();
}

void Buffer::append_row(const float* row) {
  row_.clear();
  for (const std::int64_t width : widths_) {
    row_.push_back(row);
    row += width;
  }
  append(row_);
}

bool Buffer::possible(const float* row) const {
  for (std::size_t c = 0; c < columns_.size(); row += widths_[c], ++c)
    if (columns_[c].packing.possible && !columns_[c].packing.possible(row)) return false;
  return true;
}

void Buffer::append(std::span<const float* const> values) {
  SD_CHECK(values.size() == columns_.size(),
           fmt::format("each of {} columns needs a pointer, there are {}", columns_.size(), values.size()));
  if (!device().is_cpu()) {
    if (arriving_ == nullptr) {
      arriving_ = std::make_unique<Buffer>(columns_, capacity_);
      arriving_->restart(next_slot(), appended());
    }
    return arriving_->append(values);
  }
  make_room(1);
  auto* const now = counters_.data_ptr<std::int64_t>();
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::memcpy(storage_[c].data_ptr<float>() + now[kNext] * widths_[c], values[c],
                static_cast<std::size_t>(widths_[c]) * sizeof(float));
  }
  now[kNext] = (now[kNext] + 1) % capacity_;
  now[kSize] = std::min(now[kSize] + 1, capacity_);
  ++now[kAppended];
}

void Buffer::gather(const at::Tensor& indices, Batch& out) const {
  out.columns.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    at::Tensor& column = out.columns[c];
    const std::vector<std::int64_t> sizes = with_leading(indices.size(0), columns_[c].shape);
    if (!column.defined() || column.sizes() != at::IntArrayRef(sizes))
      column = at::empty(sizes, storage_[c].options().pinned_memory(out.pinned));
    if (columns_[c].packing.unpack) {
      columns_[c].packing.unpack(storage_[c], indices, column);
    } else {
      at::index_select_out(column, storage_[c], 0, indices);
    }
  }
}

at::Tensor& Buffer::drawn(std::int64_t count) {
  if (!indices_.defined() || indices_.size(0) != count) indices_ = at::empty({count}, counters_.options());
  return indices_;
}

void Buffer::sample(std::int64_t count, std::uint64_t seed, Batch& out) {
  SD_CHECK(!device().is_cpu() || size() > 0, "a replay buffer must have a row before it is sampled");
  auto* const now = counters_.data_ptr<std::int64_t>();
  nets::run_work(device(), count,
                 DrawRows{seed, now + kDraw, now + kSize, drawn(count).data_ptr<std::int64_t>()});
  counters_.select(0, kDraw).add_(1);
  gather(indices_, out);
}

void Buffer::sample_windows(std::int64_t count, std::int64_t length, std::uint64_t seed, Batch& out) {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return column.name == "back"; });
  const std::int64_t rows = size();
  SD_CHECK(rows > 0 && found != columns_.end(), "windows need a row in the buffer, and the column \"back\"");
  const auto back = static_cast<std::size_t>(found - columns_.begin());
  const auto* distance = storage_[back].const_data_ptr<float>();
  const std::int64_t oldest = rows == capacity_ ? next_slot() : 0;
  auto* index = drawn(count * length).data_ptr<std::int64_t>();
  std::vector<float> counts(static_cast<std::size_t>(count * length));
  core::RandomStream random(seed, static_cast<std::uint64_t>(counter(kDraw)), core::Purpose::kSample);
  counters_.select(0, kDraw).add_(1);
  for (std::int64_t window = 0; window < count; ++window) {
    std::int64_t row = random.below(static_cast<std::uint32_t>(rows));  // by age, 0 the oldest
    bool there = true;
    for (std::int64_t place = (window + 1) * length; place-- > window * length;) {
      const std::int64_t slot = (oldest + row) % capacity_;
      index[place] = slot;
      counts[static_cast<std::size_t>(place)] = there ? 1.0F : 0.0F;
      const auto before = row - static_cast<std::int64_t>(distance[slot]);
      there = there && before != row && before >= 0;
      if (there) row = before;
    }
  }
  gather(indices_, out);
  std::copy(counts.begin(), counts.end(), out.columns[back].data_ptr<float>());
}

Batch random_batch(const std::vector<Column>& columns, std::int64_t size, at::Device device) {
  Batch batch;
  for (const Column& column : columns) {
    std::vector<std::int64_t> sizes = {size};
    sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
    at::Tensor values = at::rand(sizes, at::TensorOptions(device).dtype(at::kFloat));
    if (column.name.ends_with("observation")) {
      values.mul_(2).sub_(1);
      values.select(-1, -1).fill_(1.0F);
    }
    batch.columns.push_back(values);
  }
  return batch;
}

}  // namespace snake_ddp::learners
