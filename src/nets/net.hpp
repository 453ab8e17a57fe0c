// What networks over flat parameters have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "nets/backend.hpp"
#include "nets/flat_parameters.hpp"

namespace snake_ddp::nets {

/// Base of the network `Derived`, which has named_views: the names that files have, over any tensor of its layout
/// (parameters, gradients, moments). Its passes are computed by `backend`; null: that of the device.
template <class Derived, class Shape>
class Net {
 public:
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Backend& backend() const { return *backend_; }
  [[nodiscard]] FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] const FlatParameters& parameters() const { return parameters_; }
  /// named_views of the parameters. Owner: this network.
  [[nodiscard]] NamedTensors named() const {
    return static_cast<const Derived&>(*this).named_views(parameters_);
  }

 private:
  friend Derived;
  Net(Shape shape, std::vector<Block> blocks, at::Device device, const Backend* backend)
      : shape_(std::move(shape)),
        parameters_(std::move(blocks), device),
        backend_(backend != nullptr ? backend : &backend_of(device)) {}

  Shape shape_;
  FlatParameters parameters_;
  const Backend* backend_;
};

}  // namespace snake_ddp::nets
