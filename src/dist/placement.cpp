#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#endif

#include "dist/context.hpp"
#include "dist/gpus.hpp"
#include "nets/cuda_library.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {
namespace {

using core::UsageError;

void check_known(const char* flag, const std::string& value, std::initializer_list<const char*> names) {
  if (std::find(names.begin(), names.end(), value) == names.end())
    throw UsageError(fmt::format("{} '{}' is not one of: {}", flag, value, fmt::join(names, ", ")));
}

constexpr int kSharingNccl = 23000;  // the first version that lets ranks share a GPU
constexpr const char* kSharingVariable = "NCCL_MULTI_RANK_GPU_ENABLE";

std::string nccl_text(int version) {
  if (version == 0) return "no NCCL";
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

std::string why_no_gpu(int driver, int runtime) {
  const auto text = [](int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); };
  if (runtime == 0)
    return "this build has no CUDA (the PyTorch it was built with is for CPUs). Build it with another "
           "PyTorch";
  if (driver == 0) return "no GPU found (NVIDIA driver not loaded). Check nvidia-smi";
  if (driver / 1000 < runtime / 1000)
    return fmt::format(
        "no GPU found (the NVIDIA driver serves CUDA up to {}, this build needs {}). Install a newer driver",
        text(driver), text(runtime));
  return "no GPU found, although the NVIDIA driver responds. Check CUDA_VISIBLE_DEVICES";
}

std::string why_on_cpu(int driver, int runtime, bool has_nodes, const char* visible) {
  if (visible != nullptr && (*visible == '\0' || std::string_view(visible) == "-1"))
    return "CUDA_VISIBLE_DEVICES hides all GPUs";
  return driver == 0 && !has_nodes ? "this machine has no NVIDIA GPU" : why_no_gpu(driver, runtime);
}

namespace {

std::pair<int, int> cuda_versions() {
  int driver = 0, runtime = 0;
#ifdef SD_HAVE_CUDA
  // Both calls work without a driver, too, and start nothing.
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
#endif
  return {driver, runtime};
}

}  // namespace

std::string why_no_gpu() {
  const auto [driver, runtime] = cuda_versions();
  return why_no_gpu(driver, runtime);
}

std::string why_on_cpu() {
  const auto [driver, runtime] = cuda_versions();
  std::error_code none;
  const std::filesystem::directory_iterator nodes("/dev", none);
  const bool has_nodes = std::any_of(begin(nodes), end(nodes), [](const auto& node) {
    return node.path().filename().string().starts_with("nvidia");
  });
  return why_on_cpu(driver, runtime, has_nodes, std::getenv("CUDA_VISIBLE_DEVICES"));
}

int visible_gpus() {
#ifdef SD_HAVE_CUDA
  const int count = c10::cuda::device_count();  // 0 without a warning if no driver responds
  if (count > 0) nets::library();
  return count;
#else
  return 0;
#endif
}

Nccl nccl_here() {
  Nccl found;
  // Not linked: LibTorch's library for GPUs brings it, where there is a driver, and so may LD_PRELOAD.
  if (void* const symbol = ::dlsym(RTLD_DEFAULT, "ncclGetVersion"))
    reinterpret_cast<int (*)(int*)>(symbol)(&found.version);
  const char* const asked = std::getenv(kSharingVariable);
  found.shares_gpus = asked != nullptr && std::string_view(asked) == "1";
  return found;
}

std::string why_not_shared(const std::string& who, const Nccl& nccl) {
  constexpr const char* kOtherwise = "fewer ranks (NPROC=, --nproc_per_node=), or use --dist_backend gloo";
  if (!nccl.shares_gpus) return fmt::format("{}: NCCL needs one for each. Start {}", who, kOtherwise);
  if (nccl.version >= kSharingNccl) return {};
  return fmt::format(
      "{}: {}=1 allows that from NCCL 2.30 on, and this process has {}. Preload a newer one "
      "(LD_PRELOAD=PATH/libnccl.so.2, docs/gpu.md), start {}",
      who, kSharingVariable, nccl_text(nccl.version), kOtherwise);
}

std::string encode(const RankGpu& rank) {
  return fmt::format("{} {} {:d}", rank.identity, rank.nccl.version, rank.nccl.shares_gpus);
}

RankGpu decode_rank_gpu(const std::string& text) {
  RankGpu rank;
  std::istringstream(text) >> rank.identity >> rank.nccl.version >> rank.nccl.shares_gpus;
  return rank;
}

GpuVerdict judge_gpus(const std::vector<RankGpu>& ranks, const std::vector<std::string>& hosts) {
  GpuVerdict verdict;
  std::map<std::string, std::size_t> owner;
  for (std::size_t r = 0; r < ranks.size() && verdict.refusal.empty(); ++r) {
    if (ranks[r].nccl.version != ranks[0].nccl.version)
      verdict.refusal = fmt::format(
          "rank {} on {} has {}, rank 0 on {} {}: all ranks need the same one. What do LD_PRELOAD and "
          "LD_LIBRARY_PATH say there?",
          r, hosts[r], nccl_text(ranks[r].nccl.version), hosts[0], nccl_text(ranks[0].nccl.version));
    const auto [first, fresh] = owner.emplace(ranks[r].identity, r);
    if (fresh || !verdict.refusal.empty()) continue;
    verdict.shared = true;
    const std::string who = fmt::format("ranks {} and {} on {} share a GPU", first->second, r, hosts[r]);
    for (const std::size_t sharer : {first->second, r})
      if (verdict.refusal.empty()) verdict.refusal = why_not_shared(who, ranks[sharer].nccl);
  }
  return verdict;
}

Placement choose_placement(const World& world, const Options& options, int gpu_count, const Nccl& nccl) {
  check_known("--device", options.device, {"auto", "cpu", "cuda"});
  check_known("--dist_backend", options.backend, {"auto", "nccl", "gloo"});
  if (options.device == "cuda" && gpu_count == 0)
    throw UsageError(fmt::format("--device cuda: {}, or use --device cpu", why_no_gpu()));
  if (options.backend == "nccl" && gpu_count == 0)
    throw UsageError(fmt::format("--dist_backend nccl: {}, or use --dist_backend gloo", why_no_gpu()));
  if (options.backend == "nccl" && options.device == "cpu")
    throw UsageError(
        "--dist_backend nccl works on GPUs only: leave out --device cpu, or use --dist_backend gloo");
  const bool cuda = gpu_count > 0 && options.device != "cpu";
  Placement p{cuda && options.backend != "gloo" ? "nccl" : "gloo", at::Device(at::kCPU)};
  // A lone rank needs no group. It gets one of NCCL on request, to test NCCL with one GPU.
  if (world.size == 1 && options.backend != "nccl") p.backend = "none";
  if (!cuda) return p;
  // A process that sees one GPU may have one of its own, as SLURM binds them; that is checked after joining.
  if (p.backend == "nccl" && gpu_count > 1 && world.local_size > gpu_count) {
    const std::string refusal =
        why_not_shared(fmt::format("{} on a machine with {}", core::counted(world.local_size, "rank"),
                                   core::counted(gpu_count, "GPU")),
                       nccl);
    if (!refusal.empty()) throw UsageError(refusal);
  }
  p.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(world.local_rank % gpu_count));
  return p;
}

}  // namespace snake_ddp::dist
