#include "layers.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <tuple>

#include "fit.hpp"
#include "last_layer.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::nets {
namespace {

// The least number of a product's rows per thread.
constexpr std::int64_t kProductGrain = 48;

}  // namespace

void product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right, bool add) {
  if (by_library) {
    add ? void(out.addmm_(left, right)) : void(at::mm_out(out, left, right));
    return;
  }
  const kernels::MatrixView b{floats(right), right.stride(0), right.stride(1)};
  at::parallel_for(0, out.size(0), kProductGrain, [&](std::int64_t first, std::int64_t end) {
    const kernels::MatrixView a{floats(left) + first * left.stride(0), left.stride(0), left.stride(1)};
    kernels::multiply(end - first, out.size(1), left.size(1), a, b, floats(out) + first * out.stride(0),
                      out.stride(0), add);
  });
}

void sparse_product(bool by_library, at::Tensor out, const at::Tensor& left, const at::Tensor& right,
                    bool add) {
  const std::int64_t m = left.size(0), n = right.size(1), p = left.size(1);
  if (by_library) {
    product(by_library, out, left, right, add);
  } else if (left.stride(0) == 1) {
    kernels::multiply_sparse_transposed(m, n, p, floats(left), left.stride(1), floats(right), floats(out),
                                        add);
  } else {
    SD_CHECK(!add, "sparse_product adds to its result only where the left side is a transposed view");
    kernels::multiply_sparse(m, n, p, floats(left), left.stride(0), floats(right), floats(out), n);
  }
}

at::Tensor transposed(bool by_library, const at::Tensor& weight, at::Tensor& scratch) {
  if (by_library) return weight.t();
  fit(scratch, {weight.size(1), weight.size(0)}, weight);
  return scratch.copy_(weight.t());
}

void norm_relu(bool by_library, const at::Tensor& bias, const Norm& norm, Activated& rows, bool keep) {
  const std::int64_t width = rows.z.size(1);
  if (!norm.gain.defined()) {
    bias_relu(by_library, rows.z, bias);
    rows.out = rows.z;
  } else if (by_library) {
    rows.z.add_(bias);
    std::tie(rows.out, rows.mean, rows.inverse_deviation) =
        at::native_layer_norm(rows.z, {width}, norm.gain, norm.shift, kernels::kNormEpsilon);
    rows.out.relu_();
  } else {
    keep ? fit(rows.out, rows.z.sizes(), rows.z) : void(rows.out = rows.z);
    fit(rows.inverse_deviation, {rows.z.size(0)}, rows.z);
    kernels::norm_relu(rows.z.size(0), width, floats(bias), floats(norm.gain), floats(norm.shift),
                       floats(rows.z), floats(rows.inverse_deviation), floats(rows.out));
  }
}

void add_rows(const at::Tensor& rows, at::Tensor sum) {
  // As a product: the library's sum takes 10 us of an H200 for 1,152 rows.
  sum.addmv_(rows.t(), at::ones({rows.size(0)}, rows.options()));
}

at::Tensor norm_relu_back(bool by_library, const Norm& norm, const Activated& rows, at::Tensor d,
                          at::Tensor d_bias, const Norm& d_norm) {
  const std::int64_t width = d.size(1);
  if (by_library) {
    at::threshold_backward_out(d, d, rows.out, 0);
    if (norm.gain.defined()) {
      const bool wanted = d_norm.gain.defined();
      auto [before, d_gain, d_shift] =
          at::native_layer_norm_backward(d, rows.z, {width}, rows.mean, rows.inverse_deviation, norm.gain,
                                         norm.shift, {true, wanted, wanted});
      if (wanted) at::Tensor(d_norm.gain).add_(d_gain), at::Tensor(d_norm.shift).add_(d_shift);
      d = before;
    }
    if (d_bias.defined()) add_rows(d, d_bias);
    return d;
  }
  // The kernels compute them in any case.
  const at::Tensor ignored = d_bias.defined() ? at::Tensor() : at::zeros({3, width}, d.options());
  const auto into = [&](const at::Tensor& wanted, std::int64_t row) {
    return ignored.defined() ? floats(ignored) + row * width : floats(wanted);
  };
  if (norm.gain.defined()) {
    kernels::norm_relu_backward(d.size(0), width, floats(norm.gain), floats(rows.z),
                                floats(rows.inverse_deviation), floats(rows.out), floats(d), into(d_bias, 0),
                                into(d_norm.gain, 1), into(d_norm.shift, 2));
  } else {
    kernels::bias_relu_backward(d.size(0), width, floats(rows.out), floats(d), into(d_bias, 0));
  }
  return d;
}

void softmax(bool by_library, at::Tensor logits) {
  if (by_library) {
    logits.copy_(at::softmax(logits, 1));
  } else {
    kernels::softmax_of_four(floats(logits), logits.numel());
  }
}

void bias_relu(bool by_library, at::Tensor z, const at::Tensor& bias) {
  if (by_library) {
    z.add_(bias).relu_();
  } else {
    kernels::bias_relu(z.size(0), z.size(1), floats(bias), floats(z));
  }
}

void few_outputs(bool by_library, const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                 at::Tensor out) {
  if (by_library) {
    last_layer_out(out, bias, hidden, weight);
  } else {
    kernels::few_outputs(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden), floats(weight),
                         floats(bias), floats(out));
  }
}

void few_outputs_back(bool by_library, const at::Tensor& hidden, const at::Tensor& weight,
                      const at::Tensor& d_out, at::Tensor d_hidden, at::Tensor d_weight, at::Tensor d_bias) {
  if (by_library) {
    at::mm_out(d_hidden, d_out, weight);
    at::mm_out(d_weight, d_out.t(), hidden);
    at::sum_out(d_bias, d_out, {0});
  } else {
    d_weight.zero_(), d_bias.zero_();
    kernels::few_outputs_backward(hidden.size(0), hidden.size(1), weight.size(0), floats(hidden),
                                  floats(weight), floats(d_out), floats(d_hidden), floats(d_weight),
                                  floats(d_bias));
  }
}

}  // namespace snake_ddp::nets
