#include "nets/cuda_library.hpp"

#include <dlfcn.h>

#include <string>

#include "snake_ddp/core/error.hpp"

namespace snake_ddp::nets {
namespace {

struct Loaded {
  const Library* library = nullptr;
  std::string why_not;
};

std::string last_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

Loaded load() {
#ifdef SD_HAVE_CUDA
  // The driver's library stays loaded: the CUDA runtime needs it anyway.
  if (::dlopen("libcuda.so.1", RTLD_NOW) == nullptr) return {nullptr, "no NVIDIA driver: " + last_error()};
  // Global, as if the program were linked with it: libraries that it loads resolve symbols in it.
  void* const handle = ::dlopen("libsnake_ddp_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {nullptr, last_error()};
  const auto* const found = static_cast<const Library*>(::dlsym(handle, "snake_ddp_cuda_library"));
  return {found, found == nullptr ? last_error() : ""};
#else
  return {nullptr, "this build has no CUDA: the PyTorch it was built with is for CPUs"};
#endif
}

// Before main(): LibTorch looks for CUDA on the first call that concerns a device, and caches the result.
const Loaded g_loaded = load();

}  // namespace

bool is_loaded() { return g_loaded.library != nullptr; }

const Library& library() {
  if (g_loaded.library == nullptr)
    throw core::UsageError(
        "cannot load LibTorch's library for GPUs: " + g_loaded.why_not +
        ". Hide the GPUs (CUDA_VISIBLE_DEVICES=), or install the PyTorch that this program was built with");
  return *g_loaded.library;
}

}  // namespace snake_ddp::nets
