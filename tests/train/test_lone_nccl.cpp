// NCCL with one rank: what a machine with a single GPU can show of it.
#include <ATen/ATen.h>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dist/context.hpp"
#include "train/graph_capture.hpp"

namespace {

using namespace snake_ddp;

// A port that is free now.
std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

// Hidden: test_device.py runs it where there is a GPU.
TEST_CASE("one rank's NCCL averages within a recording, leaves in order, and joins again", "[.device]") {
  for (int time = 0; time < 2; ++time) {
    dist::World world;
    world.master_port = free_port();
    dist::Options options;
    options.backend = "nccl";
    options.fingerprint = "test";
    dist::DistContext group(world, options);
    REQUIRE(group.backend() == "nccl");
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool(false, group.device().index()));
    const at::Tensor start = at::arange(1000, at::TensorOptions(group.device()).dtype(at::kFloat));
    at::Tensor gradient = start.clone();
    {
      train::GraphCapture recorded(train::cuda_graphs(group.device()));
      for (int call = 0; call < 15; ++call) {
        recorded.run([&] {
          gradient.add_(1);
          group.all_reduce_mean(gradient, group.deadline());
        });
      }
      CHECK(at::equal(gradient, start + 15));
    }
    at::Tensor total = at::full({3}, 2.0, gradient.options());
    group.all_reduce_sum(total, group.deadline());
    group.broadcast(total, 0, group.deadline());
    CHECK(total.sum().item<float>() == 6);
    group.barrier("the end", group.deadline());
  }
}
#endif
