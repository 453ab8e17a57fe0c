// How long something takes on the learner's device.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#ifdef SD_HAVE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#endif

namespace snake_ddp::train {

/// On the CPU by the clock. On a GPU by events on the current stream: the clock would only show how long the host
/// takes to queue the work. Waits for nothing: while one span is still running, others are only counted. Work that is
/// being recorded is not measured.
class SpanTimer {
 public:
  explicit SpanTimer(at::Device device) : device_(device) {}

  void start() {
#ifdef SD_HAVE_CUDA
    if (device_.is_cuda()) {
      counts_ = c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
      if (!counts_) return;  // even the query of an event would spoil the recording
      collect();
      if (!under_way_) began_.record();
      return;
    }
#endif
    begin_ = std::chrono::steady_clock::now();
  }

  void stop() {
#ifdef SD_HAVE_CUDA
    if (device_.is_cuda()) {
      if (!counts_) return;
      ++calls_;
      if (!under_way_) ended_.record();
      under_way_ = true;
      return;
    }
#endif
    ++calls_;
    add(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count());
  }

  struct Spans {
    double mean_ms = 0, total_ms = 0;  // the total is the mean x the number of calls
  };
  /// Of all spans that were measured so far.
  [[nodiscard]] double measured_ms() const { return all_ms_; }

  /// Since the last call; nothing if a GPU measured none, for example when it replays a recording.
  std::optional<Spans> take() {
#ifdef SD_HAVE_CUDA
    if (device_.is_cuda()) collect();
#endif
    if (measured_ == 0) return device_.is_cpu() ? std::optional(Spans{}) : std::nullopt;
    const double mean = sum_ms_ / static_cast<double>(measured_);
    const Spans spans{mean, mean * static_cast<double>(calls_)};
    sum_ms_ = 0;
    measured_ = calls_ = 0;
    return spans;
  }

 private:
  void add(double ms) {
    sum_ms_ += ms;
    all_ms_ += ms;
    ++measured_;
  }

#ifdef SD_HAVE_CUDA
  void collect() {
    if (!under_way_ || !ended_.query()) return;
    add(began_.elapsed_time(ended_));
    under_way_ = false;
  }

  at::cuda::CUDAEvent began_{cudaEventDefault}, ended_{cudaEventDefault};  // with timing
  bool counts_ = false, under_way_ = false;
#endif
  at::Device device_;
  std::chrono::steady_clock::time_point begin_;
  double sum_ms_ = 0, all_ms_ = 0;
  std::int64_t measured_ = 0, calls_ = 0;
};

}  // namespace snake_ddp::train
