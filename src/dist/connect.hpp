// From a meeting to process groups: Gloo for control and CPU tensors, NCCL for tensors on GPUs.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <string>

#include "rendezvous.hpp"
#include "snake_ddp/core/deadline.hpp"

namespace snake_ddp::dist {

/// Log level and watchdog settings of the libraries; the user's environment wins. Call before the first
/// store.
void set_library_defaults(int rank);

/// Connects all members of the meeting; this process is number `rank`. On loopback if they share a machine and meet
/// there, else on the interface that leads to the master; GLOO_SOCKET_IFNAME wins. `name`: this group's name in the
/// meeting's store.
/// Waits       until `deadline`. `timeout` is the group's own, for operations that have none.
/// Throws      DistError, and the libraries' own errors.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_gloo(const Meeting& meeting, const std::string& name,
                                                        int rank, core::Deadline deadline,
                                                        std::chrono::milliseconds timeout);

#ifdef SD_HAVE_CUDA
/// Something that no two GPUs share.
std::string gpu_identity(at::Device device);

/// Makes the communicator now rather than within the first update. Has no deadline of its own.
c10::intrusive_ptr<c10d::Backend> connect_nccl(const Meeting& meeting, int rank, at::Device device,
                                               std::chrono::milliseconds timeout);
#endif

}  // namespace snake_ddp::dist
