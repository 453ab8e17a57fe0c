// LD_PRELOAD=libslow_disk.so: every fsync takes a fifth of a second longer, as on a busy network drive.
#include <dlfcn.h>

#include <chrono>
#include <thread>

extern "C" int fsync(int descriptor) {
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(::dlsym(RTLD_NEXT, "fsync"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return real(descriptor);
}
