// Write-back: dirty pages go from write buffers to files, in the background, on demand, and at the
// end.
#pragma once

#include <gpufs/rpc/wire_format.hpp>
#include <gpufs/testing/faults.hpp>

#include <host-daemon/base/bounded_list.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/write_back/dirty_marks.hpp>
#include <host-daemon/write_back/write_buffers.hpp>
#include <host-daemon/write_back/write_order.hpp>
#include <host-daemon/write_back/written_file.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct iovec;

namespace gpufs::daemon {

class stored_file;

/// Some of a file's dirty pages: those that begin before `end`. Without `once`, not those that were
/// written with O_GWRONCE.
struct write_back_part {
  std::uint64_t end = ~0ull;
  bool once = true;
};

/// A request that a thread of write_back carries out: it calls `run` with the job.
struct slow_work {
  void (*run)(slow_work const& self) noexcept = nullptr;
  void* on = nullptr;     ///< the object that carries it out
  void* about = nullptr;  ///< what it knows of the request besides
  rpc::request request{};
};

/// All public functions are thread-safe. Those that write block their caller until it is done. A
/// lock keeps each buffer to one thread at a time. Only the constructor, start(), attach() and
/// unwritten() need memory.
class write_back {
 public:
  /// Writes the pages of `buffers`. It asks `faults`, if given, before each call that writes or
  /// syncs, and tells `requests`, if given, afterwards. `write_behind` as config has it.
  write_back(write_buffers buffers, fault_injector* faults, request_recorder* requests = nullptr,
             std::uint64_t write_behind = 0);

  /// Calls finish().
  ~write_back();
  write_back(write_back const&) = delete;
  write_back& operator=(write_back const&) = delete;

  /// Starts or ends the threads that write in the background and run jobs: `threads` of them, or
  /// one without write buffers. stop() returns after all posted jobs have run.
  void start(unsigned threads);
  void stop();
  /// Returns true from the beginning of stop() on: jobs are to end soon.
  [[nodiscard]] bool is_ending() const noexcept { return ending_.load(std::memory_order_relaxed); }
  /// Calls stop(), then writes all dirty pages, even if device code is adding to them. Lists on
  /// stderr the bytes that cannot be written. Only the first call does. No start() follows.
  void finish();

  /// Runs `work` on one of the threads. A job may block. Returns false, and runs nothing, if
  /// most_jobs wait already.
  bool post(slow_work const& work) noexcept;
  static constexpr std::size_t most_jobs = 512;

  /// Says that the series of `version` belongs to `file`. Throws std::bad_alloc if there is no
  /// memory and the places for such times are used up.
  void attach(std::uint64_t version, std::shared_ptr<written_file> file);
  /// Says that no version belongs to `file` any more.
  void forget(written_file& file);
  /// Returns how many series belong to files.
  [[nodiscard]] std::size_t attached() const;

  /// Prints the lines of unwritten() on stderr, as lost.
  void report_lost() noexcept;

  /// write: also what has been posted to pages that kernels keep busy. They may have died.
  enum class busy_pages { wait, write };
  /// Writes all bytes that were posted to `part` of `file` before the call (null: to any file).
  /// Bytes that cannot be written stay dirty, and the file keeps the error.
  /// Returns 0, or if bytes stay dirty the -errno of a write that failed meanwhile, or -ETIMEDOUT.
  int flush(written_file const* file, write_back_part const& part = {},
            busy_pages busy = busy_pages::wait);

  /// Calls flush(), makes the file durable, and returns its first unreported error, once.
  /// If the file could not be made durable, every later call returns that error, too. The operating
  /// system takes its pages for clean then, and another fdatasync would write nothing.
  ///
  /// `may_tell` is asked before the error is taken; empty: it may be. False: it stays unreported,
  /// and sync() returns -ETIMEDOUT.
  int sync(written_file& file, std::function<bool()> const& may_tell = {});

  /// Returns the first unreported error, or 0. It counts as reported then. One of a write comes
  /// before a loss.
  int take_error(written_file& file);
  int take_write_error(written_file& file);  ///< the same without losses
  void drop_errors(written_file& file);      ///< nobody is told of them

  /// Says to the storage that a writer is done, and notes what it answers.
  static void end_writer(written_file& file);

  /// Says on stderr what the last close has not returned, as its caller has given up, or as there
  /// was none: losses, and errors of writes that have succeeded since.
  static void say_untold(written_file const& file) noexcept;
  static void say_loss(written_file const& file) noexcept;  ///< losses alone

  /// Says on stderr what close(2) says of `last` and the files that ended before it, and what
  /// nobody was told of them. It may wait for a file server: call it without a lock.
  static void end_files(std::shared_ptr<written_file> last) noexcept;

  /// Stores the file's unreported error, or none, where gwrite looks. Call it when the error has
  /// changed, and when the file gets a write index.
  void show_error(written_file const& file);

  /// Drops the dirty pages from byte `from` of the file on, each as a whole. `first`, if given, is
  /// called while nothing can write them. Unless it returns 0, they stay dirty. Returns its result,
  /// or -ETIMEDOUT: a page stayed in use. Then `first` was not called, or all others are dropped.
  int discard(written_file const& file, std::uint64_t from = 0,
              std::function<int()> const& first = {});

  [[nodiscard]] bool dirty(written_file const& file) const;
  /// Returns one past the last dirty byte of the file, or 0 if no byte is dirty. Nothing: a page
  /// stayed in use for ten seconds.
  [[nodiscard]] std::optional<std::uint64_t> dirty_end(written_file const& file);

  /// Lists the dirty bytes, also those that are being written, one line per page: "PATH: bytes
  /// 4096..8191 9000..9001".
  /// Some pages give "PATH: bytes in 4096..8191": a kernel is adding bytes, or died while it did,
  /// or the write takes more than ten seconds. Throws std::bad_alloc.
  [[nodiscard]] std::vector<std::string> unwritten();

  /// Returns how many buffers all functions and threads have looked at. A search for dirty pages
  /// looks only at buffers that are marked as its file's.
  [[nodiscard]] std::uint64_t looks() const noexcept { return marks_.looks(); }

  /// Says that no kernel of an endpoint adds bytes any more, as its device failed. Its posted bytes
  /// are written as ever.
  void end_endpoint(std::size_t endpoint) noexcept { buffers_.end(endpoint); }

  /// System calls that wrote pages of an endpoint, and their bytes.
  [[nodiscard]] std::uint64_t writes(std::size_t endpoint) const noexcept {
    return counts_[endpoint].writes.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t bytes_written(std::size_t endpoint) const noexcept {
    return counts_[endpoint].bytes.load(std::memory_order_relaxed);
  }

 private:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using file_pointer = std::shared_ptr<written_file>;
  struct locked_buffer {
    std::uint32_t number = 0;
    std::uint64_t sequence = 0, page = 0;
    file_pointer file;  // set by write()
    bool failed = false;
  };
  // The last look-up. Buffers in a row are mostly of one series, and files_mutex_ is shared.
  struct series_look {
    std::uint64_t series = ~0ull;
    file_pointer file;
  };
  struct piece {  // consecutive bytes of one buffer
    locked_buffer* buffer = nullptr;
    std::uint64_t offset = 0;
    std::byte* bytes = nullptr;
    std::uint64_t length = 0;
  };
  // Of a batch: enough for long runs of small pages, few enough that no caller waits for it long.
  static constexpr std::size_t batch_buffers = 256;
  using batch = bounded_list<locked_buffer, batch_buffers>;
  using buffer_pieces = bounded_list<piece, rpc::most_ranges>;
  static constexpr std::size_t most_pieces = 256;  // of one call; Linux allows 1024 (IOV_MAX)
  using run = bounded_list<piece, most_pieces>;
  struct buffer_watch {                        // the background threads' notes on a buffer
    std::atomic<bool> claimed{false};          // a thread may change its `written` word
    std::atomic<std::uint64_t> seen{0};        // sequence at the last look,
    std::atomic<std::int64_t> seen_at{0};      // when it was new, steady clock, ns
    std::atomic<std::uint64_t> failed{~0ull};  // sequence that could not be written
    std::atomic<std::uint64_t> failed_at{0};   // number of that failure,
    std::atomic<int> error{0};                 // and its -errno, stored before it
  };

  enum class hold { locked, gone, timed_out };
  struct flush_target {  // what a flush waits for: this sequence of a buffer, or a later one
    std::uint32_t number = 0;
    std::uint64_t sequence = 0;
  };

  struct endpoint_counts {
    std::atomic<std::uint64_t> writes{0}, bytes{0};
  };

  [[nodiscard]] std::size_t batch_size() const;
  [[nodiscard]] std::uint64_t posted(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t written(std::uint32_t i) const;
  [[nodiscard]] bool is_dirty(std::uint32_t i) const;
  [[nodiscard]] file_pointer file_of(std::uint32_t i) const;
  [[nodiscard]] file_pointer file_of_series(std::uint64_t series) const;
  [[nodiscard]] file_pointer find_series(std::uint64_t series) const;  // under files_mutex_
  void find_files(batch& locked) const;
  [[nodiscard]] mark_set marks_of(written_file const* file) const;
  template <class Visit>
  void each_marked(written_file const* file, Visit visit) const;
  [[nodiscard]] std::uint64_t version_of(std::uint32_t i) const;
  [[nodiscard]] std::uint64_t page_of(std::uint32_t i) const;
  bool lock_buffer(std::uint32_t i, busy_pages busy, locked_buffer& out);
  template <class Wanted>
  hold wait_for_buffer(std::uint32_t i, time_point end, locked_buffer& locked, Wanted wanted);
  hold lock_page_of(written_file const& file, std::uint64_t from, std::uint32_t i, time_point end,
                    locked_buffer& locked);
  void release_buffer(locked_buffer const& locked, bool clean);
  bool pieces_of(locked_buffer& locked, buffer_pieces& pieces) const;
  [[nodiscard]] bool continues(piece const& before, piece const& next) const;
  void write(batch& locked);
  void write_run(piece const* first, piece const* last);
  std::int64_t write_some(piece const* first, piece const* last, std::uint64_t skip);
  std::int64_t write_vectors(stored_file const& file, std::span<::iovec> vectors,
                             std::uint64_t offset, std::uint64_t length);
  int sync_once(written_file& file);
  int make_durable(stored_file const& file);
  bool begin_sync(written_file& file);
  static void note_loss(written_file& file, int error);
  void fail(locked_buffer& locked, int error);
  [[nodiscard]] bool belongs(std::uint32_t i, written_file const* file, write_back_part const& part,
                             series_look& last) const;
  void serve(unsigned number, unsigned threads) noexcept;
  void stand_in(write_order& order) noexcept;
  void rest(std::chrono::microseconds interval);
  void find_background(write_order& order, buffer_stretch share);
  void lock_in_order(write_order& order, batch& locked);
  batch write_background(write_order& order, buffer_stretch share);
  bool wanted_now(std::uint32_t i, bool pressed);

  write_buffers buffers_;
  fault_injector* faults_;
  request_recorder* requests_;
  std::uint64_t const write_behind_;
  dirty_marks marks_;
  std::vector<buffer_watch> watch_;
  std::vector<endpoint_counts> counts_;
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<unsigned> hurried_{0};       // flushes under way: the background helps
  std::atomic<unsigned> free_threads_{0};  // those without a job that may wait for a disk
  std::atomic<bool> begins_sync_{false};

  mutable std::mutex files_mutex_;
  std::unordered_map<std::uint64_t, file_pointer> files_;  // by series
  // Series that came when there was no memory. A new version often comes when the file has been
  // changed already, and then it must not be lost.
  struct file_series {
    std::uint64_t series = 0;
    file_pointer file;
  };
  bounded_list<file_series, 64> files_without_memory_;

  std::mutex jobs_mutex_;  // guards the four below
  std::condition_variable wake_, stand_in_wake_;
  std::vector<slow_work> jobs_;  // most_jobs places, used in turn
  std::size_t first_job_ = 0, job_count_ = 0;
  bool stopping_ = false;
  bool finished_ = false;            // of the thread that ends the object
  bool watched_ = false;             // a resting thread looks for dirty pages again soon
  std::atomic<bool> ending_{false};  // what waits for others gives up
  std::vector<write_order> orders_;  // of each thread, and of the stand-in
  std::vector<std::thread> threads_;
};

/// Calls visit(number) for the marked buffers of a file (null: of all files).
template <class Visit>
void write_back::each_marked(written_file const* file, Visit visit) const {
  marks_.each(0, buffers_.count(), marks_of(file), [&](std::uint32_t i) {
    visit(i);
    return true;
  });
}

}  // namespace gpufs::daemon
