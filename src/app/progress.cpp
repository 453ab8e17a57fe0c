#include "app/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "train/live_view.hpp"

namespace snake_ddp::app {

Progress::Progress(std::string what, bool shown) : what_(std::move(what)), console_(STDERR_FILENO) {
  if (!shown || !console_.terminal()) return;
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) draw(share_);
  });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();  // then the console clears the bar, before results are printed
}

void Progress::show(double share) {
  if (!thread_.joinable()) return;
  const std::lock_guard guard(mutex_);
  share_ = std::clamp(share, 0.0, 1.0);
}

void Progress::draw(double share) {
  const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::vector<std::string> pieces;
  if (share > 0) pieces.push_back(train::clock_text(passed * (1 - share) / share) + " left");
  pieces.push_back(train::clock_text(passed) + " so far");
  console_.bar(train::bar_line(what_, share, pieces, console_.size().columns));
}

}  // namespace snake_ddp::app
