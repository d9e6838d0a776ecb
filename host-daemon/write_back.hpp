// Writes dirty pages from their write buffers to files: in the background, on demand, and to the
// last one at the end.
#pragma once

#include <gpufs/rpc/write_format.hpp>

#include <host-daemon/fault_injector.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace gpufs::daemon {

class host_file;

/// A file that is written, however many descriptors and versions it has. Alive while one of them is
/// open for writing or a page is dirty.
struct written_file {
  std::shared_ptr<host_file const> host;
  std::string path;                          ///< as it was opened, for messages
  std::atomic<std::uint32_t> place{0};       ///< as in open_file_record, of its descriptors,
  std::atomic<std::uint32_t> once_place{0};  ///< and of the one with O_GWRONCE; 0: none
  std::atomic<int> error{0};                 ///< first -errno that nobody has been told yet
};

/// All public functions are thread-safe. Those that write block the caller until it is done; no
/// buffer is touched by two threads at once.
class write_back {
 public:
  /// Serves region.count write buffers, zeroed, which must outlive it. `faults`, if given, is asked
  /// before each call to the system.
  write_back(rpc::write_region const& region, fault_injector* faults);

  /// stop(), then writes what is dirty, whatever device code was doing; what cannot be written is
  /// listed on stderr.
  ~write_back();
  write_back(write_back const&) = delete;
  write_back& operator=(write_back const&) = delete;

  /// Starts or ends the threads that write in the background and run jobs. Jobs that were posted
  /// are run before stop() returns.
  void start(unsigned threads);
  void stop();

  /// Runs `job` on one of the threads. Jobs may block.
  void post(std::function<void()> job);

  /// Version `uid` of a file's contents is `file`.
  void attach(std::uint64_t uid, std::shared_ptr<written_file> file);
  /// No version is `file` any more.
  void forget(written_file const& file);

  /// Writes everything that had been posted to `file` (null: to any) before the call. What fails
  /// stays dirty, and its error with the file. Returns 0, or -EIO / -ETIMEDOUT if some of it stays
  /// dirty.
  int flush(written_file const* file);

  /// flush(), fdatasync, then the file's first unreported error, once.
  int sync(written_file& file);

  /// The first error that nobody has been told, or 0; now somebody has.
  int take_error(written_file& file);

  /// Drops what is dirty from byte `from` of the file on, in whole pages.
  void discard(written_file const& file, std::uint64_t from = 0);

  [[nodiscard]] bool dirty(written_file const& file) const;
  /// One past the last dirty byte of the file; 0 if none is.
  [[nodiscard]] std::uint64_t dirty_end(written_file const& file);

  /// What is dirty, also while it is being written, one line per page: "PATH: bytes 4096..8191
  /// 9000..9001"; "PATH: bytes in 4096..8191" of a page that a kernel is adding bytes to, or has
  /// died in, or whose write takes more than ten seconds.
  [[nodiscard]] std::vector<std::string> unwritten();

  [[nodiscard]] std::uint64_t writes() const noexcept {
    return writes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t bytes_written() const noexcept {
    return bytes_written_.load(std::memory_order_relaxed);
  }

 private:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using file_pointer = std::shared_ptr<written_file>;
  struct held_buffer {
    std::uint32_t number;
    std::uint64_t sequence;
    std::uint64_t page;
    file_pointer file;
    bool failed;
  };
  struct piece {  // consecutive bytes of one buffer
    held_buffer* buffer;
    std::uint64_t offset;
    std::byte* bytes;
    std::uint64_t length;
  };
  struct buffer_watch {  // what the background knows of a buffer
    std::atomic<bool> claimed{
        false};  // a thread looks at it; guards the changes of its `written` word
    std::atomic<std::uint64_t> seen{0};        // sequence at the last look,
    std::atomic<std::int64_t> seen_at{0};      // when it was new, steady clock, ns
    std::atomic<std::uint64_t> failed{~0ull};  // sequence that could not be written
    std::atomic<std::uint64_t> failed_at{0};   // number of that failure
  };

  enum class insist { no, yes };  // yes: hold it even if the device says it is busy

  [[nodiscard]] std::uint64_t posted(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t written(std::uint32_t i) const;
  [[nodiscard]] bool is_dirty(std::uint32_t i) const;
  [[nodiscard]] file_pointer file_of(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t page_of(std::uint32_t i) const;
  bool hold_buffer(std::uint32_t i, insist how, held_buffer& out);
  template <class Wanted>
  bool wait_for_buffer(std::uint32_t i, time_point end, held_buffer& held, Wanted wanted);
  void release_buffer(held_buffer const& held, bool clean);
  std::vector<piece> pieces_of(held_buffer& held) const;
  void write(std::vector<held_buffer>& held);
  void write_run(piece const* first, piece const* last);
  std::int64_t write_some(piece const* first, piece const* last, std::uint64_t skip);
  void fail(held_buffer& held, int error);
  void show_error(written_file const& file, int error);
  int flush(written_file const* file, insist how);
  void serve(unsigned number, unsigned threads);
  bool write_background(unsigned number, unsigned threads);
  bool wanted_now(std::uint32_t i, bool pressed);

  rpc::write_region region_;
  fault_injector* faults_;
  std::vector<buffer_watch> watch_;
  std::atomic<std::uint64_t> failures_{0}, writes_{0}, bytes_written_{0};
  std::atomic<unsigned> hurried_{0};  // flushes under way: the background helps

  mutable std::mutex files_mutex_;
  std::unordered_map<std::uint64_t, file_pointer> files_;  // by uid

  std::mutex jobs_mutex_;  // guards the three below
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::atomic<bool> ending_{false};  // held writes give up
  std::vector<std::thread> threads_;
};

}  // namespace gpufs::daemon
