// The baseline's host threads: each polls its own slots, reads one page for each request and brings
// it over with a copy of its own.
#pragma once

#include <apps/baseline/original.hpp>
#include <apps/common/host_file.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpufs::apps::original {

class host_threads {
 public:
  /// `queue`: the slots, answers and staging of it are used. `file`, which the threads read, and
  /// the memory behind `queue` must outlive them; `buffers` is pinned memory, options::page_size +
  /// options::readahead for each thread.
  host_threads(host_file const& file, original::ref const& queue, std::byte* buffers,
               options const& o);
  ~host_threads();
  host_threads(host_threads const&) = delete;
  host_threads& operator=(host_threads const&) = delete;

  void start_counting();
  [[nodiscard]] std::vector<thread_statistics> stats() const;
  [[nodiscard]] std::uint64_t bytes_moved() const;
  [[nodiscard]] std::string failure() const;

 private:
  /// Written by its thread alone; on cache lines of its own.
  struct alignas(64) member {
    std::uint32_t first_slot = 0;
    std::uint32_t end_slot = 0;
    std::byte* bytes_read = nullptr;
    std::vector<std::uint32_t> answered;  // number of each slot's last request
    std::atomic<std::uint64_t> requests{0}, idle_polls{0}, polls_before_first{0}, bytes{0};
    std::atomic<std::uint64_t> counting_since{0};  // the start_counting() that it has heard of
    std::vector<host_read> trace;
    std::thread thread;
  };

  void serve(member& m) noexcept;
  bool poll(member& m, class mover& to_device) noexcept;
  std::int32_t carry_out(member& m, class mover& to_device, std::uint32_t slot) noexcept;
  void start_over(member& m, std::uint64_t since) noexcept;
  void fail(char const* what) noexcept;
  void end() noexcept;

  host_file const& file_;
  original::ref queue_;
  options options_;
  std::vector<member> members_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> counting_since_{0};
  mutable std::mutex mutex_;  // guards failure_
  std::string failure_;
};

}  // namespace gpufs::apps::original
