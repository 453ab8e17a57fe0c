// Our matrix products against ATen's.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "snake_ddp/nets/products.hpp"

namespace {

using namespace snake_ddp;

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / (1.0 + b.abs().max().item<double>());
}

}  // namespace

TEST_CASE("products equal ATen's at every remainder of the register blocks", "[parity]") {
  at::manual_seed(5);
  for (const std::int64_t m : {1, 2, 5, 6, 7, 11, 12, 13, 31}) {
    for (const std::int64_t n : {1, 4, 15, 16, 31, 32, 33, 63, 64, 65, 130}) {
      for (const std::int64_t p : {1, 3, 31, 256, 257, 600}) {
        CAPTURE(m, n, p);
        const at::Tensor a = at::randn({m, p}), b = at::randn({p, n});
        const at::Tensor expected = at::mm(a, b);
        // Rows of `out` lie further apart than they are long: what is between must stay.
        at::Tensor out = at::full({m, n + 3}, 7.0F);
        nets::multiply(m, n, p, {a.data_ptr<float>(), p, 1}, {b.data_ptr<float>(), n, 1},
                       out.data_ptr<float>(), n + 3);
        REQUIRE(difference(out.narrow(1, 0, n), expected) < 1e-5);
        REQUIRE(at::equal(out.narrow(1, n, 3), at::full({m, 3}, 7.0F)));
        const at::Tensor transposed = a.t().contiguous();
        nets::multiply(m, n, p, {transposed.data_ptr<float>(), 1, m}, {b.data_ptr<float>(), n, 1},
                       out.data_ptr<float>(), n + 3);
        REQUIRE(difference(out.narrow(1, 0, n), expected) < 1e-5);
      }
    }
  }
}

TEST_CASE("the last layer and its backward pass equal ATen's", "[parity]") {
  at::manual_seed(6);
  for (const std::int64_t rows : {1, 7, 64}) {
    for (const std::int64_t width : {5, 16, 31, 256}) {
      for (const std::int64_t outputs : {1, 4, 9}) {
        CAPTURE(rows, width, outputs);
        const at::Tensor before = at::randn({rows, width}), weight = at::randn({outputs, width});
        const at::Tensor bias = at::randn({outputs}), d_out = at::randn({rows, outputs});
        at::Tensor hidden = before.clone(), out = at::empty({rows, outputs});
        nets::relu_and_last_layer(rows, width, outputs, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                                  bias.data_ptr<float>(), out.data_ptr<float>());
        CHECK(at::equal(hidden, at::relu(before)));
        CHECK(difference(out, at::linear(hidden, weight, bias)) < 1e-5);

        at::Tensor d_hidden = at::empty_like(hidden), d_weight = at::empty_like(weight),
                   d_bias = at::empty_like(bias);
        nets::last_layer_backward(rows, width, outputs, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                                  d_out.data_ptr<float>(), d_hidden.data_ptr<float>(),
                                  d_weight.data_ptr<float>(), d_bias.data_ptr<float>());
        CHECK(difference(d_hidden, at::mm(d_out, weight) * (hidden > 0)) < 1e-5);
        CHECK(difference(d_weight, at::mm(d_out.t(), hidden)) < 1e-5);
        CHECK(difference(d_bias, d_out.sum(0)) < 1e-5);
        at::Tensor again = at::empty_like(d_hidden);
        nets::last_layer_backward(rows, width, outputs, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                                  d_out.data_ptr<float>(), again.data_ptr<float>(), nullptr, nullptr);
        CHECK(at::equal(again, d_hidden));
      }
    }
  }
}
