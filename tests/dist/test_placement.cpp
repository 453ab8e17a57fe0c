#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "connect.hpp"

#include "dist/context.hpp"
#include "dist/gpus.hpp"
#include "snake_ddp/core/error.hpp"

using namespace snake_ddp;
using Catch::Contains;
using dist::Nccl;
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

std::string usage_error_of(const World& world, const Options& options, int gpus, const Nccl& nccl = {}) {
  try {
    dist::choose_placement(world, options, gpus, nccl);
  } catch (const core::UsageError& error) {
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

TEST_CASE("several ranks may have one GPU if NCCL can do that and was asked to", "[unit]") {
  constexpr int kOld = 22809, kNew = 23003;
  const auto auto_auto = asking("auto", "auto");
  for (const int gpus : {2, 3}) {
    for (int rank = 0; rank < 4; ++rank) {
      const Placement p = dist::choose_placement(local_rank_of(rank, 4), auto_auto, gpus, {kNew, true});
      CHECK(p.backend == "nccl");
      CHECK(p.device.index() == rank % gpus);
    }
    const World w = local_rank_of(3, 4);
    const std::string one_each = fmt::format(
        "4 ranks on a machine with {} GPUs: NCCL needs one for each. Start fewer ranks (NPROC=, "
        "--nproc_per_node=), or use --dist_backend gloo",
        gpus);
    for (const int version : {0, kOld, kNew})
      CHECK(usage_error_of(w, auto_auto, gpus, {version, false}) == one_each);
    CHECK(usage_error_of(w, auto_auto, gpus, {kOld, true}) ==
          fmt::format("4 ranks on a machine with {} GPUs: NCCL_MULTI_RANK_GPU_ENABLE=1 allows that from NCCL "
                      "2.30 on, and "
                      "this process has NCCL 2.28.9. Preload a newer one (LD_PRELOAD=PATH/libnccl.so.2, "
                      "docs/gpu.md), start "
                      "fewer ranks (NPROC=, --nproc_per_node=), or use --dist_backend gloo",
                      gpus));
    CHECK_THAT(usage_error_of(w, auto_auto, gpus, {0, true}), Contains("this process has no NCCL."));
    CHECK_THAT(usage_error_of(w, auto_auto, gpus, {22999, true}), Contains("NCCL 2.29.99"));
    CHECK(usage_error_of(w, auto_auto, gpus, {23000, true}) == "no UsageError");
  }
  // Where no GPU is shared, nothing is asked of NCCL.
  for (const bool asked : {false, true}) {
    CHECK(dist::choose_placement(local_rank_of(1, 2), auto_auto, 2, {kOld, asked}).device.index() == 1);
    CHECK(dist::choose_placement(local_rank_of(3, 4), asking("cuda", "gloo"), 2, {kOld, asked})
              .device.index() == 1);
    CHECK(dist::choose_placement(local_rank_of(3, 4), auto_auto, 1, {kOld, asked}).device.index() == 0);
  }
}

TEST_CASE("ranks' GPUs and NCCLs are judged before they are connected", "[unit]") {
  const Nccl old{22809, false}, asked_of_old{22809, true}, fresh{23003, true}, fresh_not_asked{23003, false};
  const auto judged = [](const std::vector<dist::RankGpu>& ranks) {
    return dist::judge_gpus(ranks, {"nodeA", "nodeA", "nodeB", "nodeB"});
  };
  for (const Nccl& nccl : {old, asked_of_old, fresh, fresh_not_asked}) {
    const dist::GpuVerdict apart = judged({{"a", nccl}, {"b", nccl}, {"c", nccl}, {"d", nccl}});
    CHECK(apart.refusal.empty());
    CHECK_FALSE(apart.shared);
  }
  const dist::GpuVerdict shared = judged({{"a", fresh}, {"a", fresh}, {"c", fresh}, {"d", fresh}});
  CHECK(shared.refusal.empty());
  CHECK(shared.shared);
  CHECK(
      judged({{"a", fresh_not_asked}, {"b", fresh_not_asked}, {"c", fresh_not_asked}, {"c", fresh_not_asked}})
          .refusal ==
      "ranks 2 and 3 on nodeB share a GPU: NCCL needs one for each. Start fewer ranks (NPROC=, "
      "--nproc_per_node=), or use "
      "--dist_backend gloo");
  CHECK_THAT(
      judged({{"a", asked_of_old}, {"a", asked_of_old}}).refusal,
      Contains("ranks 0 and 1 on nodeA share a GPU") && Contains("from NCCL 2.30 on") && Contains("2.28.9"));
  // The variable reached one of the sharers only.
  for (const bool first : {true, false})
    CHECK_THAT(
        judged({{"a", first ? fresh : fresh_not_asked}, {"a", first ? fresh_not_asked : fresh}}).refusal,
        Contains("share a GPU: NCCL needs one for each"));
  CHECK(judged({{"a", fresh}, {"b", fresh}, {"c", old}}).refusal ==
        "rank 2 on nodeB has NCCL 2.28.9, rank 0 on nodeA NCCL 2.30.3: all ranks need the same one. What do "
        "LD_PRELOAD and "
        "LD_LIBRARY_PATH say there?");
  CHECK_THAT(judged({{"a", fresh}, {"a", asked_of_old}}).refusal, Contains("all ranks need the same one"));
  const dist::RankGpu read = dist::decode_rank_gpu(dist::encode({"0123abcd", fresh}));
  CHECK(read.identity == "0123abcd");
  CHECK(read.nccl.version == 23003);
  CHECK(read.nccl.shares_gpus);
}

TEST_CASE("NCCL may be asked to share GPUs by its variable alone", "[unit]") {
  for (const auto& [value, asked] :
       std::vector<std::pair<const char*, bool>>{{"1", true}, {"0", false}, {"", false}}) {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", value, 1);
    CHECK(dist::nccl_here().shares_gpus == asked);
  }
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  CHECK_FALSE(dist::nccl_here().shares_gpus);
}

TEST_CASE("a group of one returns from every call at once", "[unit]") {
  dist::DistContext alone(World{}, asking("cpu", "auto"));
  const auto passed = core::Deadline::in(std::chrono::milliseconds(0));
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
