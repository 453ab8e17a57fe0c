#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#endif

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/cuda/library.hpp"
#include "snake_ddp/dist/context.hpp"
#include "snake_ddp/dist/gpus.hpp"

namespace snake_ddp::dist {
namespace {

using base::UsageError;

void check_known(const char* flag, const std::string& value, std::initializer_list<const char*> names) {
  if (std::find(names.begin(), names.end(), value) == names.end())
    throw UsageError(fmt::format("{} '{}' is not one of: {}", flag, value, fmt::join(names, ", ")));
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
  if (count > 0) cuda::library();
  return count;
#else
  return 0;
#endif
}

Placement choose_placement(const World& world, const Options& options, int gpu_count) {
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
  if (p.backend == "nccl" && gpu_count > 1 && world.local_size > gpu_count)
    throw UsageError(
        fmt::format("{} ranks on a machine with {} GPUs: NCCL needs one for each. Start fewer ranks (NPROC=, "
                    "--nproc_per_node=), or use --dist_backend gloo",
                    world.local_size, gpu_count));
  p.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(world.local_rank % gpu_count));
  return p;
}

}  // namespace snake_ddp::dist
