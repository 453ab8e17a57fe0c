#include "last_layer.hpp"

#include <ATen/ATen.h>

#include "last_layer_work.hpp"
#include "nets/device_work.hpp"
#include "snake_ddp/core/check.hpp"

namespace snake_ddp::nets {
namespace {

template <int kOutputs>
void by_kernel(at::Tensor& out, const at::Tensor& bias, const at::Tensor& hidden, const at::Tensor& weight) {
  SD_CHECK(out.is_contiguous() && hidden.is_contiguous() && weight.is_contiguous(),
           "the last layer needs contiguous tensors");
  run_work(out.device(), hidden.size(0),
           LastLayer<kOutputs>{hidden.size(1), hidden.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                               bias.const_data_ptr<float>(), out.data_ptr<float>()});
}

}  // namespace

void last_layer_out(at::Tensor& out, const at::Tensor& bias, const at::Tensor& hidden,
                    const at::Tensor& weight) {
  if (kHaveKernels && out.is_cuda() && weight.size(0) == 4) return by_kernel<4>(out, bias, hidden, weight);
  if (kHaveKernels && out.is_cuda() && weight.size(0) == 1) return by_kernel<1>(out, bias, hidden, weight);
  at::addmm_out(out, bias, hidden, weight.t());
}

}  // namespace snake_ddp::nets
