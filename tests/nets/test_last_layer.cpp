// The kernel of layers with few outputs, on the host.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "../../src/nets/last_layer_work.hpp"
#include "../host_loops.hpp"
#include "snake_ddp/core/each.hpp"

namespace {

using namespace snake_ddp;

template <int kOutputs>
void compare(std::int64_t rows, std::int64_t width) {
  CAPTURE(kOutputs, rows, width);
  const at::Tensor hidden = at::randn({rows, width}), weight = at::randn({kOutputs, width}),
                   bias = at::randn({kOutputs});
  at::Tensor out = at::full({rows, kOutputs}, std::numeric_limits<float>::quiet_NaN());
  core::each_on_host(rows,
                     nets::LastLayer<kOutputs>{width, hidden.data_ptr<float>(), weight.data_ptr<float>(),
                                               bias.data_ptr<float>(), out.data_ptr<float>()});
  CHECK(at::allclose(out, at::addmm(bias, hidden, weight.t()), 1e-4, 1e-4));
}

}  // namespace

TEST_CASE("a layer with few outputs is the library's product, in any order of rows and lanes", "[unit]") {
  at::manual_seed(3);
  for (const auto& way : {shuffled, threaded}) {
    const HostGoes goes(way);
    for (const std::int64_t rows : {1, 7, 384}) {
      for (const std::int64_t width : {1, 8, 13, 256}) {
        compare<1>(rows, width);
        compare<4>(rows, width);
      }
    }
  }
}
