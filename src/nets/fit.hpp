#pragma once

#include <ATen/ATen.h>

namespace snake_ddp::nets {

/// `t` with these sizes, of `like`'s type and device; its memory is reused if it is large enough.
inline void fit(at::Tensor& t, at::IntArrayRef sizes, const at::Tensor& like) {
  if (!t.defined()) {
    t = at::empty(sizes, like.options());
  } else if (t.sizes() != sizes) {
    t.resize_(sizes);
  }
}

inline float* floats(const at::Tensor& t) { return t.data_ptr<float>(); }

}  // namespace snake_ddp::nets
