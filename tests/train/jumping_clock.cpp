// Preloaded by test_resume.py: the wall clock jumps by years each second, back and forth; the monotonic clock does not.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <ctime>

namespace {

void jump(time_t& seconds) { seconds += (seconds % 4) * (seconds % 2 != 0 ? 1 : -1) * 365 * 24 * 3600; }

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, t);
  if (failed == 0 && clock == CLOCK_REALTIME) jump(t->tv_sec);
  return static_cast<int>(failed);
}

extern "C" time_t time(time_t* out) noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  if (out != nullptr) *out = t.tv_sec;
  return t.tv_sec;
}

extern "C" int gettimeofday(timeval* t, void* /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *t = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
