#include "connect.hpp"

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#ifdef SD_HAVE_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime.h>

#include "nets/cuda_library.hpp"
#endif

#include "network.hpp"
#include "snake_ddp/core/error.hpp"

namespace snake_ddp::dist {
namespace {

using c10d::ProcessGroupGloo;
using core::DistError;
using std::chrono::milliseconds;

// Null where the user chose an interface: the library reads the variable itself.
std::shared_ptr<gloo::transport::Device> choose_device(const Meeting& meeting) {
  const char* chosen = std::getenv("GLOO_SOCKET_IFNAME");
  if (chosen != nullptr && *chosen != '\0') return nullptr;
  const auto same_host = [&](const Hello& h) { return h.host == meeting.members.front().host; };
  const bool one_machine = std::all_of(meeting.members.begin(), meeting.members.end(), same_host);
  if (one_machine && is_loopback(meeting.master_address))
    return ProcessGroupGloo::createDeviceForHostname(meeting.master_address);
  // The library would take the address of this machine's host name, which is often a loopback address.
  std::string address = local_address_towards(meeting.master_address);
  if (address.empty() || is_loopback(address)) address = first_outer_address();
  if (address.empty())
    throw DistError(
        "this machine has no network address that the ranks on other hosts could reach: set MASTER_ADDR to a "
        "name that "
        "they know, or GLOO_SOCKET_IFNAME to an interface");
  return ProcessGroupGloo::createDeviceForHostname(address);
}

}  // namespace

void set_library_defaults(int rank) {
  ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);  // our own errors are more specific than its warnings
  ::setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2000",
           0);  // its watchdog sleeps four times this before it acts
  // NCCL's thread aborts collectives that hang, but does not end the process: this rank's next call then names the
  // missing ranks. torchrun's default makes the thread throw, which ends the process without a message about them.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 1);
  c10::initLogging();
  c10::SetGlobalRank(rank);
}

c10::intrusive_ptr<ProcessGroupGloo> connect_gloo(const Meeting& meeting, const std::string& name, int rank,
                                                  core::Deadline deadline, milliseconds timeout) {
  const milliseconds limit = std::max(deadline.left(), milliseconds(1));
  auto options = ProcessGroupGloo::Options::create(limit);
  if (auto device = choose_device(meeting))
    options->devices.push_back(std::move(device));
  else
    options = ProcessGroupGloo::Options::create_default(limit);
  options->group_name = "snake_ddp." + name;
  auto group =
      c10::make_intrusive<ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, meeting.store), rank,
                                            static_cast<int>(meeting.members.size()), options);
  group->setTimeout(timeout);
  return group;
}

#ifdef SD_HAVE_CUDA
std::string gpu_identity(at::Device device) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, device.index());
  if (error != cudaSuccess) throw DistError(fmt::format("{}: {}", device.str(), cudaGetErrorString(error)));
  std::string text;
  for (const char byte : properties.uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

c10::intrusive_ptr<c10d::Backend> connect_nccl(const Meeting& meeting, int rank, at::Device device,
                                               milliseconds timeout) {
  c10::cuda::set_device(device.index());  // of this thread
  return nets::library().connect_nccl(c10::make_intrusive<c10d::PrefixStore>("nccl", meeting.store), rank,
                                      static_cast<int>(meeting.members.size()), device, timeout);
}
#endif

}  // namespace snake_ddp::dist
