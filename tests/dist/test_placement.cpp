#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "connect.hpp"

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/gpus.hpp"

using namespace snake_ddp;
using Catch::Contains;
using dist::Options;
using dist::Placement;
using dist::World;

namespace {

World local_rank_of(int local_rank, int local_size) {
  World w;
  w.rank = w.local_rank = local_rank;
  w.size = w.local_size = local_size;
  return w;
}

Options asking(const std::string& device, const std::string& backend) {
  Options o;
  o.device = device;
  o.backend = backend;
  return o;
}

std::string usage_error_of(const World& world, const Options& options, int gpus) {
  try {
    dist::choose_placement(world, options, gpus);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

}  // namespace

TEST_CASE("ranks without GPUs use Gloo, ranks with one each NCCL", "[unit]") {
  const Placement cpu = dist::choose_placement(local_rank_of(1, 2), asking("auto", "auto"), 0);
  CHECK(cpu.backend == "gloo");
  CHECK(cpu.device == at::Device(at::kCPU));
  const Placement gpu = dist::choose_placement(local_rank_of(1, 2), asking("auto", "auto"), 8);
  CHECK(gpu.backend == "nccl");
  CHECK(gpu.device == at::Device(at::kCUDA, 1));
}

TEST_CASE("an explicit choice is used", "[unit]") {
  CHECK(dist::choose_placement(local_rank_of(1, 2), asking("cpu", "auto"), 8).device.is_cpu());
  CHECK(dist::choose_placement(local_rank_of(1, 2), asking("cpu", "auto"), 8).backend == "gloo");
  const Placement shared = dist::choose_placement(local_rank_of(3, 4), asking("cuda", "gloo"), 2);
  CHECK(shared.backend == "gloo");
  CHECK(shared.device == at::Device(at::kCUDA, 1));
}

TEST_CASE("a process that sees only its own GPU takes that", "[unit]") {
  const Placement p = dist::choose_placement(local_rank_of(3, 4), asking("auto", "nccl"), 1);
  CHECK(p.device == at::Device(at::kCUDA, 0));
}

TEST_CASE("one rank has no backend", "[unit]") {
  CHECK(dist::choose_placement(World{}, asking("auto", "auto"), 0).backend == "none");
  CHECK(dist::choose_placement(World{}, asking("auto", "auto"), 1).backend == "none");
  CHECK(dist::choose_placement(World{}, asking("auto", "gloo"), 1).backend == "none");
}

TEST_CASE("one rank has an NCCL group of its own on request", "[unit]") {
  CHECK(dist::choose_placement(World{}, asking("auto", "nccl"), 1).backend == "nccl");
}

TEST_CASE("NCCL's thread may not end the process, whatever a launcher chose", "[unit]") {
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);
  dist::set_library_defaults(0);
  CHECK(std::string(std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING")) == "2");  // end what hangs, stay alive
}

TEST_CASE("a request for a missing device names what is missing", "[unit]") {
  const World w = local_rank_of(0, 2);
  CHECK_THAT(usage_error_of(w, asking("cuda", "auto"), 0), Contains("--device cuda"));
  CHECK_THAT(usage_error_of(w, asking("auto", "nccl"), 0), Contains("--dist_backend nccl"));
  CHECK_THAT(usage_error_of(w, asking("cpu", "nccl"), 8), Contains("--device cpu"));
  CHECK_THAT(usage_error_of(local_rank_of(0, 8), asking("auto", "auto"), 2),
             Contains("8 ranks") && Contains("2 GPUs") && Contains("--dist_backend gloo"));
  CHECK_THAT(usage_error_of(w, asking("tpu", "auto"), 0), Contains("'tpu'") && Contains("cuda"));
  CHECK_THAT(usage_error_of(w, asking("auto", "mpi"), 0), Contains("'mpi'") && Contains("gloo"));
}

TEST_CASE("a group of one returns from every call at once", "[unit]") {
  dist::DistContext alone(World{}, asking("cpu", "auto"));
  const auto passed = base::Deadline::in(std::chrono::milliseconds(0));
  at::Tensor t = at::ones({3});
  alone.all_reduce_sum(t, passed);
  alone.all_reduce_mean(t, passed);
  alone.broadcast(t, 0, passed);
  alone.barrier("here", passed);
  alone.check_same("value", "1", passed);
  CHECK(at::equal(t, at::ones({3})));
  CHECK(alone.gather("record", passed) == std::vector<std::string>{"record"});
  CHECK(alone.broadcast_text("text", passed) == "text");
  CHECK(alone.hosts().size() == 1);
  CHECK(alone.is_main());
}

TEST_CASE("the reason for no GPU follows from the versions of driver and runtime", "[unit]") {
  CHECK_THAT(dist::why_no_gpu(0, 0), Contains("no CUDA") && Contains("PyTorch"));
  CHECK_THAT(dist::why_no_gpu(0, 13000), Contains("NVIDIA driver not loaded") && Contains("nvidia-smi"));
  CHECK_THAT(dist::why_no_gpu(12040, 13000),
             Contains("12.4") && Contains("13.0") && Contains("newer driver"));
  CHECK_THAT(dist::why_no_gpu(13000, 13000), Contains("CUDA_VISIBLE_DEVICES"));
  CHECK_THAT(dist::why_no_gpu(13020, 13000), Contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("a run on the CPU is calm where no GPU is to be expected", "[unit]") {
  CHECK(dist::why_on_cpu(0, 13000, false, nullptr) == "this machine has no NVIDIA GPU");
  CHECK(dist::why_on_cpu(0, 13000, true, nullptr) == dist::why_no_gpu(0, 13000));
  CHECK(dist::why_on_cpu(12040, 13000, false, nullptr) == dist::why_no_gpu(12040, 13000));
  for (const char* none : {"", "-1"})
    CHECK(dist::why_on_cpu(13000, 13000, true, none) == "CUDA_VISIBLE_DEVICES hides all GPUs");
  CHECK(dist::why_on_cpu(13000, 13000, true, "7") == dist::why_no_gpu(13000, 13000));
}
