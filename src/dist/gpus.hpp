// Why a process sees no GPU, and whether ranks can share one.
#pragma once

#include <string>
#include <vector>

namespace snake_ddp::dist {

/// What is wrong and what to do, without a full stop, derived from the CUDA versions that the driver supports and that this build
/// needs, as reported by the runtime: 1000 * major + 10 * minor, 0 if there is none.
std::string why_no_gpu(int driver, int runtime);
/// What is wrong in this process.
std::string why_no_gpu();

/// Why a process that may use either is on the CPU; calm where no GPU is to be expected: no device nodes (/dev/nvidia*), or
/// CUDA_VISIBLE_DEVICES, `visible`, hides them.
std::string why_on_cpu(int driver, int runtime, bool has_nodes, const char* visible);
/// Why this process is on the CPU.
std::string why_on_cpu();

/// NCCL in a process.
struct Nccl {
  int version = 0;           // as ncclGetVersion has it: 23003 is 2.30.3; 0 if there is none
  bool shares_gpus = false;  // NCCL_MULTI_RANK_GPU_ENABLE=1: several ranks may have one GPU
};

/// That of this process; a preloaded one wins over LibTorch's.
Nccl nccl_here();

/// Empty if ranks may share a GPU, else what to do. `who` does: "ranks 0 and 1 on nodeA share a GPU".
std::string why_not_shared(const std::string& who, const Nccl& nccl);

/// What a rank tells the others before NCCL connects them.
struct RankGpu {
  std::string identity;  // something that no two GPUs share, without spaces
  Nccl nccl;
};
std::string encode(const RankGpu& rank);
RankGpu decode_rank_gpu(const std::string& text);

struct GpuVerdict {
  std::string refusal;  // why NCCL could not connect these ranks; empty if it can
  bool shared = false;  // two ranks have one GPU
};

/// On all ranks, in rank order, with their hosts.
GpuVerdict judge_gpus(const std::vector<RankGpu>& ranks, const std::vector<std::string>& hosts);

/// For the log.
inline constexpr const char* kSharedGpus =
    "Ranks share a GPU (NCCL_MULTI_RANK_GPU_ENABLE=1): they take turns on it, so times and speeds mean "
    "nothing.";

}  // namespace snake_ddp::dist
