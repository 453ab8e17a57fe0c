#include "snake_ddp/replay/device_buffer.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include "draw_rows.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/cuda/kernels.hpp"

namespace snake_ddp::replay {

DeviceBuffer::DeviceBuffer(std::vector<Column> columns, std::int64_t capacity, at::Device device)
    : columns_(std::move(columns)), capacity_(capacity) {
  SD_CHECK(capacity > 0, "an empty replay buffer");
  if (!cuda::kHaveKernels && !device.is_cpu())
    throw base::UsageError(
        "--boards device: this build has no kernels for GPUs, as CMake found no nvcc; install the wheels of "
        "launch/requirements-cuda.txt and build again, or use --boards host");
  std::int64_t bytes = 0;
  try {
    for (const Column& c : columns_) {
      SD_CHECK(!c.packing.unpack || c.packing.unpack_rows, "a packed column without unpack_rows");
      const std::int64_t floats = c.packing.unpack ? c.packing.floats : c10::multiply_integers(c.shape);
      bytes += capacity * floats * static_cast<std::int64_t>(sizeof(float));
      storage_.push_back(at::empty({capacity, floats}, at::TensorOptions().dtype(at::kFloat).device(device)));
    }
  } catch (const c10::Error& e) {
    throw base::UsageError(
        fmt::format("not enough memory for a replay buffer of {} transitions (more than {} MiB) on {}; lower "
                    "--buffer_size. The system says: {}",
                    capacity, bytes >> 20, device.str(), e.what_without_backtrace()));
  }
  counters_ = at::zeros({kCounters}, at::TensorOptions().dtype(at::kLong).device(device));
}

void DeviceBuffer::sample(std::int64_t count, std::uint64_t seed, Batch& out) {
  if (!indices_.defined() || indices_.size(0) != count) indices_ = at::empty({count}, counters_.options());
  auto* counter = counters_.data_ptr<std::int64_t>();
  cuda::run_work(device(), count,
                 DrawRows{seed, counter + kDraw, counter + kSize, indices_.data_ptr<std::int64_t>()});
  counters_.select(0, kDraw).add_(1);
  out.columns.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::vector<std::int64_t> sizes = {count};
    sizes.insert(sizes.end(), columns_[c].shape.begin(), columns_[c].shape.end());
    if (!out.columns[c].defined() || out.columns[c].sizes() != at::IntArrayRef(sizes))
      out.columns[c] = at::empty(sizes, storage_[c].options());
    if (columns_[c].packing.unpack) {
      columns_[c].packing.unpack_rows(storage_[c], indices_, out.columns[c]);
    } else {
      at::Tensor flat = out.columns[c].view({count, -1});
      at::index_select_out(flat, storage_[c], 0, indices_);
    }
  }
}

void DeviceBuffer::copy_to(Buffer& buffer) const {
  const at::Tensor counters = counters_.to(at::kCPU);
  const auto* counter = counters.data_ptr<std::int64_t>();
  const std::int64_t size = counter[kSize], oldest = (counter[kNext] - size + capacity_) % capacity_;
  std::vector<at::Tensor> storage;
  for (const at::Tensor& s : storage_) storage.push_back(s.to(at::kCPU));
  buffer.restart(oldest, counter[kAppended] - size);
  std::vector<const float*> row(storage.size());
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t slot = (oldest + k) % capacity_;
    for (std::size_t c = 0; c < storage.size(); ++c)
      row[c] = storage[c].const_data_ptr<float>() + slot * storage[c].size(1);
    buffer.append(row);
  }
}

void DeviceBuffer::copy_from(const Buffer& buffer, std::uint64_t draws) {
  SD_CHECK(buffer.capacity() == capacity_ && buffer.columns().size() == columns_.size(), "another buffer");
  for (std::size_t c = 0; c < storage_.size(); ++c)
    storage_[c]
        .narrow(0, 0, buffer.size())
        .copy_(buffer.column(c).narrow(0, 0, buffer.size()).view({buffer.size(), storage_[c].size(1)}));
  counters_.copy_(at::tensor(
      {buffer.next_slot(), buffer.size(), buffer.appended(), static_cast<std::int64_t>(draws)}, at::kLong));
}

}  // namespace snake_ddp::replay
