#include "layers.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "fit.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/nets/precision.hpp"

namespace snake_ddp::nets {
namespace {

// The least number of a product's rows per thread.
constexpr std::int64_t kProductGrain = 48;

}  // namespace

void product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right, bool add) {
  if (by_library) {
    add ? void(out.addmm_(left, right)) : product_out(out, left, right);
    return;
  }
  const kernels::MatrixView b{floats(right), right.stride(0), right.stride(1)};
  at::parallel_for(0, out.size(0), kProductGrain, [&](std::int64_t first, std::int64_t end) {
    const kernels::MatrixView a{floats(left) + first * left.stride(0), left.stride(0), left.stride(1)};
    kernels::multiply(end - first, out.size(1), left.size(1), a, b, floats(out) + first * out.stride(0),
                      out.stride(0), add);
  });
}

void sparse_product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right) {
  const std::int64_t m = left.size(0), n = right.size(1), p = left.size(1);
  if (by_library) {
    product_out(out, left, right);
  } else if (left.stride(0) == 1) {
    kernels::multiply_sparse_transposed(m, n, p, floats(left), left.stride(1), floats(right), floats(out));
  } else {
    kernels::multiply_sparse(m, n, p, floats(left), left.stride(0), floats(right), floats(out), n);
  }
}

at::Tensor transposed(bool by_library, const at::Tensor& weight, at::Tensor& scratch) {
  if (by_library) return weight.t();
  fit(scratch, {weight.size(1), weight.size(0)}, weight);
  return scratch.copy_(weight.t());
}

void bias_relu(bool by_library, at::Tensor z, const at::Tensor& bias) {
  if (by_library) {
    z.add_(bias).relu_();
  } else {
    kernels::bias_relu(z.size(0), z.size(1), floats(bias), floats(z));
  }
}

void bias_relu_back(bool by_library, const at::Tensor& out, at::Tensor d, at::Tensor d_bias) {
  if (by_library) {
    d.mul_(out.gt(0));
    at::sum_out(d_bias, d, {0});
  } else {
    d_bias.zero_();
    kernels::bias_relu_backward(d.size(0), d.size(1), floats(out), floats(d), floats(d_bias));
  }
}

void few_outputs(bool by_library, const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                 at::Tensor out) {
  if (by_library) {
    affine_out(out, bias, hidden, weight.t());
  } else {
    kernels::few_outputs(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden), floats(weight),
                         floats(bias), floats(out));
  }
}

void few_outputs_back(bool by_library, const at::Tensor& hidden, const at::Tensor& weight,
                      const at::Tensor& d_out, at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias) {
  if (by_library) {
    product_out(d_hidden, d_out, weight);
    product_out(d_weight, d_out.t(), hidden);
    at::sum_out(d_bias, d_out, {0});
  } else {
    d_weight.zero_(), d_bias.zero_();
    kernels::few_outputs_backward(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden),
                                  floats(weight), floats(d_out), floats(d_hidden), floats(d_weight),
                                  floats(d_bias));
  }
}

}  // namespace snake_ddp::nets
