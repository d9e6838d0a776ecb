// The protocol `rolling` of one object with a fixed rolling size, as a few lines: how many faults
// and bytes a sequence of the CPU's writes must make.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <vector>

namespace gpufs::apps::workloads {

/// Before it, the object is all zeros on both sides, and no other object is being written.
class rolling_model {
 public:
  rolling_model(std::uint64_t bytes, std::uint64_t block, std::uint64_t rolling)
      : bytes_(bytes), block_(block), rolling_(rolling), is_dirty_((bytes + block - 1) / block) {}

  void write(std::uint64_t at) {
    std::uint64_t const block = at / block_;
    if (is_dirty_[block] != 0) return;
    ++faults_;
    is_dirty_[block] = 1;
    written_.push_back(block);
    // Neighbours of the newest block stay: one access may need both.
    for (auto oldest = written_.begin(); written_.size() > rolling_ && oldest != written_.end();) {
      bool const is_near = *oldest + 1 >= block && *oldest <= block + 1;
      if (!is_near) send(*oldest);
      oldest = is_near ? std::next(oldest) : written_.erase(oldest);
    }
  }

  /// A launch.
  void release() {
    for (auto const block : written_) send(block);
    written_.clear();
  }

  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return sent_; }

 private:
  void send(std::uint64_t block) {
    is_dirty_[block] = 0;
    sent_ += std::min(block_, bytes_ - block * block_);
  }

  std::uint64_t bytes_, block_, rolling_;
  std::vector<char> is_dirty_;
  std::list<std::uint64_t> written_;
  std::uint64_t faults_ = 0, sent_ = 0;
};

}  // namespace gpufs::apps::workloads
