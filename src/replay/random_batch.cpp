#include "snake_ddp/replay/random_batch.hpp"

#include <ATen/ATen.h>

namespace snake_ddp::replay {

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

}  // namespace snake_ddp::replay
