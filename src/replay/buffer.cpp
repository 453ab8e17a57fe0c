#include "snake_ddp/replay/buffer.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/random.hpp"

namespace snake_ddp::replay {
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

Buffer::Buffer(std::vector<Column> columns, std::int64_t capacity)
    : columns_(std::move(columns)), capacity_(capacity) {
  SD_CHECK(capacity > 0, "an empty replay buffer");
  for (const Column& c : columns_) widths_.push_back(c10::multiply_integers(stored_shape(c)));
  try {
    for (const Column& c : columns_)
      storage_.push_back(at::empty(with_leading(capacity, stored_shape(c)), at::kFloat));
  } catch (const c10::Error& e) {
    throw base::UsageError(
        fmt::format("not enough memory for a replay buffer of {} transitions ({} MiB); lower --buffer_size. "
                    "The system says: {}",
                    capacity, payload_bytes() >> 20, e.what_without_backtrace()));
  }
}

std::int64_t Buffer::payload_bytes() const {
  return std::accumulate(widths_.begin(), widths_.end(), std::int64_t{0}) * capacity_ *
         static_cast<std::int64_t>(sizeof(float));
}

std::int64_t Buffer::row_floats() const {
  return std::accumulate(widths_.begin(), widths_.end(), std::int64_t{0});
}

Snapshot Buffer::snapshot() {
  SD_CHECK(!snapshot_ || snapshot_->dropped, "two snapshots of a buffer at a time");
  Snapshot s;
  s.kept_ = std::make_shared<Snapshot::Kept>(size_, size_ == capacity_ ? next_ : 0);
  s.at_end_ = std::shared_ptr<void>(
      nullptr, [kept = s.kept_](void*) { kept->dropped.store(true, std::memory_order_release); });
  s.widths_ = widths_;
  s.storage_ = storage_;
  s.rows_ = size_;
  s.row_floats_ = row_floats();
  s.capacity_ = capacity_;
  snapshot_ = s.kept_;
  return s;
}

// Called before slot next_ of a full buffer is overwritten.
void Buffer::put_by(Snapshot::Kept& kept) const {
  const std::lock_guard guard(kept.mutex);
  const std::int64_t row = (next_ - kept.first + capacity_) % capacity_;
  if (row < kept.read || row >= kept.rows || kept.put_by.contains(row)) return;
  std::vector<float> values;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const float* from = storage_[c].const_data_ptr<float>() + next_ * widths_[c];
    values.insert(values.end(), from, from + widths_[c]);
  }
  kept.put_by.emplace(row, std::move(values));
}

void Buffer::restart(std::int64_t first, std::int64_t appended) {
  SD_CHECK(first >= 0 && first < capacity_, fmt::format("slot {} of {}", first, capacity_));
  size_ = 0;
  next_ = first;
  appended_ = appended;
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
  SD_CHECK(values.size() == columns_.size(), "not one pointer per column");
  if (snapshot_ && snapshot_->dropped.load(std::memory_order_acquire)) snapshot_.reset();
  if (snapshot_) put_by(*snapshot_);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::memcpy(storage_[c].data_ptr<float>() + next_ * widths_[c], values[c],
                static_cast<std::size_t>(widths_[c]) * sizeof(float));
  }
  next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
  size_ = std::min(size_ + 1, capacity_);
  ++appended_;
}

void Buffer::gather(const at::Tensor& indices, Batch& out) {
  out.columns.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) gather_column(c, indices, out.columns[c], out.pinned);
}

void Buffer::gather_column(std::size_t c, const at::Tensor& indices, at::Tensor& out, bool pinned) {
  const std::int64_t rows = indices.size(0);
  const auto sizes = with_leading(rows, columns_[c].shape);
  if (!out.defined() || out.sizes() != at::IntArrayRef(sizes))
    out = at::empty(sizes, storage_[c].options().pinned_memory(pinned));
  const float* from = storage_[c].data_ptr<float>();
  float* to = out.data_ptr<float>();
  const auto* index = indices.data_ptr<std::int64_t>();
  const auto width = widths_[c];
  if (const auto& unpack = columns_[c].packing.unpack) {
    const std::int64_t shown = c10::multiply_integers(columns_[c].shape);
    for (std::int64_t r = 0; r < rows; ++r) unpack(from + index[r] * width, to + r * shown);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * width, from + index[r] * width, static_cast<std::size_t>(width) * sizeof(float));
}

at::Tensor Buffer::oldest_first() const {
  const at::Tensor slots = at::arange(size_, at::kLong);
  return size_ == capacity_ ? (slots + next_).remainder_(capacity_) : slots;
}

void Buffer::sample(std::int64_t count, std::uint64_t seed, std::uint64_t draw, Batch& out) {
  SD_CHECK(size_ > 0, "sampling from an empty replay buffer");
  if (!indices_.defined() || indices_.size(0) != count) indices_ = at::empty({count}, at::kLong);
  auto* index = indices_.data_ptr<std::int64_t>();
  base::RandomStream random(seed, draw, base::Purpose::kSample);
  for (std::int64_t i = 0; i < count; ++i) index[i] = random.below(static_cast<std::uint32_t>(size_));
  gather(indices_, out);
}

void Buffer::sample_windows(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t draw,
                            Batch& out) {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return column.name == "back"; });
  SD_CHECK(size_ > 0 && found != columns_.end(), "windows of an empty replay buffer, or one without links");
  const auto back = static_cast<std::size_t>(found - columns_.begin());
  const auto* distance = storage_[back].const_data_ptr<float>();
  const std::int64_t oldest = size_ == capacity_ ? next_ : 0;
  if (!indices_.defined() || indices_.size(0) != count * length)
    indices_ = at::empty({count * length}, at::kLong);
  auto* index = indices_.data_ptr<std::int64_t>();
  std::vector<float> counts(static_cast<std::size_t>(count * length));
  base::RandomStream random(seed, draw, base::Purpose::kSample);
  for (std::int64_t window = 0; window < count; ++window) {
    std::int64_t row = random.below(static_cast<std::uint32_t>(size_));  // by age, 0 the oldest
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

}  // namespace snake_ddp::replay
