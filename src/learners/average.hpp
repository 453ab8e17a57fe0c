// The mean of a gradient over all ranks, as learners see it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <type_traits>
#include <utility>

namespace snake_ddp::learners {

/// Replaces a flat gradient by its mean over all ranks; passed in by the training loop. With one rank it does nothing.
class Average {
 public:
  using Whole = std::function<void(at::Tensor& flat_gradient)>;
  using Post = std::function<void(const at::Tensor& flat_gradient)>;

  Average() = default;  // one rank
  template <class Callable>
  requires std::is_invocable_v<Callable, at::Tensor&> Average(Callable whole)
      : whole_(std::move(whole)) {}  // NOLINT(google-explicit-constructor): any callable is one
  Average(Post post, Whole whole) : post_(std::move(post)), whole_(std::move(whole)) {}

  /// Announces a gradient early; the call with the same tensor must follow. Work in between overlaps with the wait
  /// for other ranks.
  void post(const at::Tensor& flat_gradient) const {
    if (post_) post_(flat_gradient);
  }
  void operator()(at::Tensor& flat_gradient) const {
    if (whole_) whole_(flat_gradient);
  }

 private:
  Post post_;
  Whole whole_;
};

}  // namespace snake_ddp::learners
