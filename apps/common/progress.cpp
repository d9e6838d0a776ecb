#include <apps/common/print_error.hpp>
#include <apps/common/progress.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace gpufs::apps {

progress::progress(std::string what, std::uint64_t total, bool wanted)
    : visible_(wanted && ::isatty(STDERR_FILENO) == 1), total_(total), what_(std::move(what)) {
  draw(true);
}

progress::~progress() {
  if (visible_) print_error("\r\033[K");
}

void progress::advance(std::uint64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);  // for show only
  draw(false);
}

void progress::set(std::uint64_t amount) {
  done_.store(amount, std::memory_order_relaxed);
  draw(false);
}

void progress::expect(std::uint64_t total) {
  total_ = total;
  draw(true);
}

void progress::say(std::string what) {
  {
    std::lock_guard const lock(mutex_);
    what_ = std::move(what);
  }
  draw(true);
}

void progress::draw(bool now) {
  if (!visible_) return;
  std::lock_guard const lock(mutex_);
  auto const time = std::chrono::steady_clock::now();
  if (!now && time < next_) return;
  next_ = time + std::chrono::milliseconds(100);
  constexpr std::uint64_t width = 30;
  std::uint64_t const done = std::min(done_.load(std::memory_order_relaxed), total_);
  double const part = total_ == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total_);
  auto const filled = static_cast<std::size_t>(part * width);
  print_error("\r\033[K[{:=<{}}{: <{}}] {:3.0f} %  {}", "", filled, "", width - filled, part * 100,
              what_);
}

}  // namespace gpufs::apps
