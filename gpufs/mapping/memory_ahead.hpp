// A thread that gives objects host memory ahead of CPU threads.
#pragma once

#include <gpufs/mapping/bell.hpp>
#include <gpufs/mapping/requests.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

namespace gpufs::shared {

/// Calls give_some() from a thread of its own after each want(), until that returns false. If the
/// system has no thread, it is never called: then the CPU's touches get memory, page by page.
class memory_ahead {
 public:
  explicit memory_ahead(std::function<bool()> give_some);
  ~memory_ahead();  ///< waits for give_some()
  memory_ahead(memory_ahead const&) = delete;
  memory_ahead& operator=(memory_ahead const&) = delete;

  // With the mutex of the address space, also in give_some():
  void want(bytes_ahead const& what);
  /// The next bytes that are wanted, `most` at most. Nothing: none are.
  [[nodiscard]] std::optional<bytes_ahead> take(std::uint64_t most);

 private:
  void give_in_turn() noexcept;

  std::function<bool()> const give_some_;
  std::deque<bytes_ahead> wanted_;
  bell bell_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace gpufs::shared
