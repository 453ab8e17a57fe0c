#include "products.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "snake_ddp/kernels/products.hpp"

namespace snake_ddp::bench {

double median_us(double seconds, const std::function<void()>& call) {
  for (int i = 0; i < 5; ++i) call();
  std::vector<double> times;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end || times.size() < 5) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

ProductsTime time_of(double seconds, const std::vector<Product>& products) {
  ProductsTime sum;
  const double share = seconds / static_cast<double>(2 * products.size());
  for (const Product& p : products) {
    const at::Tensor stored = p.left_transposed ? at::randn({p.p, p.m}) : at::randn({p.m, p.p}),
                     left = p.left_transposed ? stored.t() : stored, right = at::randn({p.p, p.n});
    at::Tensor out = at::empty({p.m, p.n});
    const kernels::MatrixView view{stored.data_ptr<float>(), left.stride(0), left.stride(1)};
    const auto by_ours = [&] {
      kernels::multiply(p.m, p.n, p.p, view, {right.data_ptr<float>(), p.n, 1}, out.data_ptr<float>(), p.n);
    };
    const auto by_library = [&] { at::mm_out(out, left, right); };
    const double ours = median_us(share, by_ours), library = median_us(share, by_library);
    sum.fastest += static_cast<double>(p.times) * std::min(ours, library);
    sum.library += static_cast<double>(p.times) * library;
  }
  return sum;
}

}  // namespace snake_ddp::bench
