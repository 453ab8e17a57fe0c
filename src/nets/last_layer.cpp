#include "last_layer.hpp"

#include <ATen/ATen.h>
#ifdef SD_HAVE_KERNELS
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "last_layer_work.hpp"
#include "snake_ddp/base/check.hpp"
#endif

namespace snake_ddp::nets {
namespace {

#ifdef SD_HAVE_KERNELS
template <int kOutputs>
void by_kernel(at::Tensor& out, const at::Tensor& bias, const at::Tensor& hidden, const at::Tensor& weight) {
  SD_CHECK(out.is_contiguous() && hidden.is_contiguous() && weight.is_contiguous(), "rows without gaps");
  const LastLayer<kOutputs> work{hidden.size(1), hidden.const_data_ptr<float>(),
                                 weight.const_data_ptr<float>(), bias.const_data_ptr<float>(),
                                 out.data_ptr<float>()};
  const auto stream = c10::cuda::getCurrentCUDAStream(out.device().index());
  C10_CUDA_CHECK(static_cast<cudaError_t>(launch(work, hidden.size(0), stream.stream())));
}
#endif

}  // namespace

void last_layer_out(at::Tensor& out, const at::Tensor& bias, const at::Tensor& hidden,
                    const at::Tensor& weight) {
#ifdef SD_HAVE_KERNELS
  if (out.is_cuda() && weight.size(0) == 4) return by_kernel<4>(out, bias, hidden, weight);
  if (out.is_cuda() && weight.size(0) == 1) return by_kernel<1>(out, bias, hidden, weight);
#endif
  at::addmm_out(out, bias, hidden, weight.t());
}

}  // namespace snake_ddp::nets
