// The kernel of gpufs-cp.
#include <gpufs/gpufs.hpp>

#include <apps/common/show_progress.hpp>
#include <apps/gpufs-cp/copy_run.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

namespace gpufs::apps {

namespace {

/// Files are cut into ranges, so that several blocks copy a large one.
constexpr std::uint64_t range_bytes = 16 << 20;

/// Threads that make files durable. They mostly wait: a file system that is asked for several files
/// at a time writes its journal once for all of them.
constexpr unsigned sync_threads = 16;

struct file_range {
  std::uint64_t from_path, to_path;  ///< where the names start
  std::uint64_t begin,
      end;  ///< bytes of the file; the last range goes on to wherever the file ends
  std::uint32_t file;
  std::uint32_t last;
};

/// Pinned memory: the kernel tells the host which files it is done with.
struct copied_files {
  std::int32_t* results;  ///< by file; stored before `order`
  std::uint32_t* order;   ///< 1 + the number of the file, in the order in which they are done
};

struct copy_job {
  fs_ref fs;
  char const* text;
  file_range const* ranges;
  std::uint64_t count;
  std::uint64_t* next;
  std::uint32_t* left;   ///< ranges of a file that are not copied yet
  std::uint32_t* files;  ///< number of files that are done
  std::int32_t* errors;
  std::byte* chunks;
  std::uint64_t chunk_bytes;
  std::uint64_t* bytes;  ///< pinned memory: copied so far, by block
  copied_files done;
};

/// Copies a range of a file, and adds its bytes to `done`. All threads of the block call; returns
/// 0 or -errno.
template <class Context>
__device__ std::int32_t copy_one(Context& io, char const* text, file_range const& p,
                                 std::byte* chunk, std::uint64_t chunk_bytes, std::uint64_t& done) {
  int const from = gopen(io, text + p.from_path, O_RDONLY);
  if (from < 0) return from;
  // The host has made the file, empty.
  int const to = gopen(io, text + p.to_path, O_WRONLY | O_GWRONCE | O_NOFOLLOW);
  std::int32_t error = to < 0 ? to : 0;
  for (std::uint64_t at = p.begin; error == 0 && (at < p.end || p.last != 0);) {
    std::uint64_t const want = p.last != 0 || p.end - at > chunk_bytes ? chunk_bytes : p.end - at;
    ssize_t const got = gread(io, from, chunk, want, static_cast<std::int64_t>(at));
    if (got <= 0) {
      error = static_cast<std::int32_t>(got);
      break;
    }
    ssize_t const put =
        gwrite(io, to, chunk, static_cast<std::size_t>(got), static_cast<std::int64_t>(at));
    if (put != got) error = put < 0 ? static_cast<std::int32_t>(put) : -EIO;
    at += static_cast<std::uint64_t>(got);
    // Relaxed, by one thread: a number to show.
    if (threadIdx.x == 0)
      atomic_ref<std::uint64_t, scope::system>(done).fetch_add(std::uint64_t(got),
                                                               memory_order_relaxed);
  }
  if (to >= 0) {
    int const closed = gclose(io, to);
    if (error == 0) error = closed;
  }
  int const closed = gclose(io, from);
  return error != 0 ? error : closed;
}

/// Counts a range as copied. One thread calls, after its block has closed the file. So the last one
/// finds the file closed by all, and its bytes written.
__device__ void end_range(copy_job const& job, std::uint32_t file, std::int32_t error) {
  atomic_ref<std::int32_t, scope::device> first_error(job.errors[file]);
  std::int32_t none = 0;
  if (error != 0)
    first_error.compare_exchange_strong(none, error, memory_order_relaxed, memory_order_relaxed);
  // Orders the errors of other blocks before the look at them.
  auto const left =
      atomic_ref<std::uint32_t, scope::device>(job.left[file]).fetch_sub(1, memory_order_acq_rel);
  if (left != 1) return;
  job.done.results[file] = first_error.load(memory_order_relaxed);
  auto const at =
      atomic_ref<std::uint32_t, scope::device>(*job.files).fetch_add(1, memory_order_relaxed);
  // Pairs with the acquire in next_done().
  atomic_ref<std::uint32_t, scope::system>(job.done.order[at])
      .store(file + 1, memory_order_release);
}

__global__ void __launch_bounds__(512) copy_files(copy_job job) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(job.fs, block);
  __shared__ std::uint64_t mine;
  for (;;) {
    block.sync();  // the last use of `mine` is over
    if (threadIdx.x == 0)
      mine = atomic_ref<std::uint64_t, scope::device>(*job.next).fetch_add(1, memory_order_relaxed);
    block.sync();
    if (mine >= job.count) return;
    file_range const p = job.ranges[mine];
    std::int32_t const error = copy_one(io, job.text, p, job.chunks + blockIdx.x * job.chunk_bytes,
                                        job.chunk_bytes, job.bytes[blockIdx.x]);
    if (threadIdx.x == 0) end_range(job, p.file, error);
  }
}

/// Waits for the file that is the `at`th to be done. Returns its number plus 1, or 0 if the kernel
/// is over and has not come so far.
std::uint32_t next_done(copied_files const& done, std::uint64_t at, std::atomic<bool> const& over) {
  for (;;) {
    bool const last_look = over.load(std::memory_order_acquire);
    atomic_ref<std::uint32_t, scope::system> const word(done.order[at]);
    if (auto const file = word.load(memory_order_acquire); file != 0 || last_look) return file;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// Threads that make files durable as the kernel is done with them.
class part_syncs {
 public:
  part_syncs(std::vector<copied_file> const& files, copied_files const& done)
      : files_(files), done_(done) {
    auto const count = std::min<std::size_t>(sync_threads, files.size());
    try {
      while (threads_.size() < count) threads_.emplace_back([this] { work(); });
    } catch (std::system_error const&) {  // fewer threads do as well
      if (threads_.empty()) throw;
    }
  }
  /// The kernel is over. Returns when all files that it was done with are durable.
  ~part_syncs() { over_.store(true, std::memory_order_release); }
  part_syncs(part_syncs const&) = delete;
  part_syncs& operator=(part_syncs const&) = delete;

 private:
  void work() {
    for (std::uint64_t at; (at = next_.fetch_add(1, std::memory_order_relaxed)) < files_.size();) {
      auto const file = next_done(done_, at, over_);
      if (file == 0) return;
      auto& result = done_.results[file - 1];
      if (result == 0) result = make_part_durable(files_[file - 1]);
    }
  }

  std::vector<copied_file> const& files_;
  copied_files const done_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> over_{false};
  std::vector<std::jthread> threads_;  ///< destroyed first, which joins them
};

/// Drops what could not be written to parts, which finish_copy() removes. Else the filesystem would
/// list it at its end, page by page.
void discard_failed(filesystem& fs, std::vector<copied_file> const& files,
                    pinned_buffer<std::int32_t> const& results) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (results[i] == 0) continue;
    int const fd = fs.open(files[i].part, O_WRONLY | O_GWRONCE | O_NOFOLLOW);  // as it was written
    if (fd < 0) continue;
    fs.discard(fd);
    fs.close(fd);
  }
}

}  // namespace

std::vector<std::int32_t> run_copy(filesystem& fs, std::vector<copied_file> const& files,
                                   copy_shape const& shape,
                                   std::function<void(std::uint64_t)> const& show) {
  std::string text;
  std::vector<file_range> ranges;
  std::vector<std::uint32_t> counts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::uint64_t const from = text.size();
    text.append(files[i].from).push_back('\0');
    std::uint64_t const to = text.size();
    text.append(files[i].part).push_back('\0');
    std::uint64_t const count =
        std::max<std::uint64_t>((files[i].bytes + range_bytes - 1) / range_bytes, 1);
    counts.push_back(static_cast<std::uint32_t>(count));
    for (std::uint64_t p = 0; p < count; ++p) {
      ranges.push_back({from, to, p * range_bytes, (p + 1) * range_bytes,
                        static_cast<std::uint32_t>(i), p + 1 == count ? 1u : 0u});
    }
  }
  if (ranges.empty()) return {};
  buffer<char> names(text.size());
  names.copy_from_host(text.data(), text.size());
  buffer<file_range> on_device(ranges.size());
  on_device.copy_from_host(ranges.data(), ranges.size());
  buffer<std::uint32_t> left(files.size());
  left.copy_from_host(counts.data(), counts.size());
  buffer<std::uint64_t> next(1);
  next.fill_zero();
  buffer<std::uint32_t> files_done(1);
  files_done.fill_zero();
  buffer<std::int32_t> errors(files.size());
  errors.fill_zero();
  buffer<std::byte> chunks(shape.blocks * shape.chunk_bytes);
  pinned_buffer<std::int32_t> results(files.size());
  pinned_buffer<std::uint32_t> order(files.size());
  order.fill_zero();
  pinned_buffer<std::uint64_t> bytes(shape.blocks);
  bytes.fill_zero();
  copied_files const done{results.data(), order.data()};
  load_kernel(copy_files);
  launch(copy_files, shape.blocks, shape.threads,
         copy_job{fs.ref(), names.data(), on_device.data(), ranges.size(), next.data(), left.data(),
                  files_done.data(), errors.data(), chunks.data(), shape.chunk_bytes, bytes.data(),
                  done});
  {
    part_syncs syncs(files, done);
    show_progress(this_thread_stream(), bytes, show);
    this_thread_stream().synchronize();
  }
  discard_failed(fs, files, results);
  return {results.begin(), results.end()};
}

}  // namespace gpufs::apps
