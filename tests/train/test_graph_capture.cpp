#include "train/graph_capture.hpp"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAGuard.h>

#include "span_timer.hpp"
#endif

using namespace snake_ddp;

namespace {

// Records its calls.
class Noted final : public train::DeviceGraph {
 public:
  explicit Noted(std::string& notes) : notes_(notes) {}
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;
  ~Noted() override { notes_ += is_open_ ? "!" : ""; }
  void begin() override {
    notes_ += "(";
    is_open_ = true;
  }
  void end() override {
    notes_ += ")";
    is_open_ = false;
  }
  void replay() override { notes_ += "r"; }

 private:
  std::string& notes_;
  bool is_open_ = false;
};

}  // namespace

TEST_CASE("work is recorded after its warm-up and replayed from then on", "[unit]") {
  std::string notes;
  train::GraphCapture recorded([&] { return std::make_unique<Noted>(notes); }, 2);
  for (int i = 0; i < 5; ++i) recorded.run([&] { notes += 'a'; });
  CHECK(notes == "aa(a)rrr");
}

TEST_CASE("without recordings all work runs normally", "[unit]") {
  train::GraphCapture recorded({}, 2);
  int calls = 0;
  for (int i = 0; i < 5; ++i) recorded.run([&] { ++calls; });
  CHECK(calls == 5);
}

TEST_CASE("a recording is abandoned when its work throws, and made by the next call", "[unit]") {
  std::string notes;
  train::GraphCapture recorded([&] { return std::make_unique<Noted>(notes); }, 0);
  CHECK_THROWS_WITH(recorded.run([] { throw std::runtime_error("why"); }), "why");
  CHECK(notes == "(!");
  recorded.run([&] { notes += "a"; });
  CHECK(notes == "(!(a)r");
}

#ifdef SD_HAVE_CUDA
// Hidden: test_device.py runs them where there is a GPU.
TEST_CASE("a graph whose work throws leaves its reason and a stream that works", "[.device]") {
  const at::Device device(at::kCUDA, 0);
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool(false, device.index()));
  at::Tensor x = at::zeros({1}, at::TensorOptions(device));
  train::GraphCapture recorded(train::cuda_graphs(device), 0);
  CHECK_THROWS_WITH(recorded.run([] { throw std::runtime_error("why"); }), "why");
  // Waits for the device, which a recording forbids.
  CHECK_THROWS_WITH(recorded.run([&] { x.add_(x.item<float>()); }), Catch::Contains("capturing"));
  for (int call = 0; call < 3; ++call) recorded.run([&] { x.add_(1); });
  CHECK(x.item<float>() == 3);
}

TEST_CASE("spans within recorded work are measured until it is recorded", "[.device]") {
  const at::Device device(at::kCUDA, 0);
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool(false, device.index()));
  at::Tensor x = at::zeros({1}, at::TensorOptions(device));
  train::SpanTimer timer(device);
  train::GraphCapture recorded(train::cuda_graphs(device), 4);
  for (int call = 0; call < 8; ++call) {
    recorded.run([&] {
      timer.start();
      x.add_(1);
      timer.stop();
    });
  }
  CHECK(x.item<float>() == 8);
  const auto spans = timer.take();
  REQUIRE(spans);
  CHECK(spans->mean_ms > 0);
  CHECK_FALSE(timer.take());
}
#endif
