#include "snake_ddp/replay/buffer.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/random.hpp"

namespace snake_ddp::replay {
namespace {

std::vector<std::int64_t> with_leading(std::int64_t rows, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> sizes = {rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

}  // namespace

Buffer::Buffer(std::vector<Column> columns, std::int64_t capacity)
    : columns_(std::move(columns)), capacity_(capacity) {
  SD_CHECK(capacity > 0, "an empty replay buffer");
  for (const Column& c : columns_) {
    widths_.push_back(std::accumulate(c.shape.begin(), c.shape.end(), std::int64_t{1}, std::multiplies<>()));
  }
  try {
    for (const Column& c : columns_)
      storage_.push_back(at::empty(with_leading(capacity, c.shape), at::kFloat));
  } catch (const c10::Error& e) {
    throw base::UsageError(fmt::format(
        "no memory for a replay buffer of {} transitions ({} MiB); lower --buffer_size. The system says: {}",
        capacity, payload_bytes() >> 20, e.what_without_backtrace()));
  }
}

std::int64_t Buffer::payload_bytes() const {
  return std::accumulate(widths_.begin(), widths_.end(), std::int64_t{0}) * capacity_ *
         static_cast<std::int64_t>(sizeof(float));
}

void Buffer::append(std::span<const float* const> values) {
  SD_CHECK(values.size() == columns_.size(), "one pointer a column");
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::memcpy(storage_[c].data_ptr<float>() + next_ * widths_[c], values[c],
                static_cast<std::size_t>(widths_[c]) * sizeof(float));
  }
  next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
  size_ = std::min(size_ + 1, capacity_);
  ++appended_;
}

void Buffer::gather(const at::Tensor& indices, Batch& out) {
  const std::int64_t rows = indices.size(0);
  out.columns.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const auto sizes = with_leading(rows, columns_[c].shape);
    if (!out.columns[c].defined() || out.columns[c].sizes() != at::IntArrayRef(sizes)) {
      out.columns[c] = at::empty(sizes, storage_[c].options());
    }
    const float* from = storage_[c].data_ptr<float>();
    float* to = out.columns[c].data_ptr<float>();
    const auto* index = indices.data_ptr<std::int64_t>();
    const auto width = widths_[c];
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * width, from + index[r] * width, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

void Buffer::sample(std::int64_t count, std::uint64_t seed, std::uint64_t draw, Batch& out) {
  SD_CHECK(size_ > 0, "sampling from an empty replay buffer");
  if (!indices_.defined() || indices_.size(0) != count) indices_ = at::empty({count}, at::kLong);
  auto* index = indices_.data_ptr<std::int64_t>();
  base::RandomStream random(seed, draw, base::Purpose::kSample);
  for (std::int64_t i = 0; i < count; ++i) index[i] = random.below(static_cast<std::uint32_t>(size_));
  gather(indices_, out);
}

}  // namespace snake_ddp::replay
