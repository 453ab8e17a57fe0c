// LD_PRELOAD=libno_shared_memory.so: there is no room for memory that processes share.
#include <cerrno>

extern "C" int memfd_create(const char*, unsigned) {
  errno = ENOSPC;
  return -1;
}
