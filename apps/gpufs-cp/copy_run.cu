// The kernel of gpufs-cp.
#include <gpufs/gpufs.hpp>

#include <apps/common/show_progress.hpp>
#include <apps/gpufs-cp/copy_run.hpp>

#include <algorithm>
#include <string>

namespace gpufs::apps {

namespace {

/// Files are cut into ranges, so that several blocks copy a large one.
constexpr std::uint64_t range_bytes = 16 << 20;

struct file_range {
  std::uint64_t from_path, to_path;  ///< where the names start
  std::uint64_t begin,
      end;  ///< bytes of the file; the last range goes on to wherever the file ends
  std::uint32_t file;
  std::uint32_t last;
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

__global__ void __launch_bounds__(512)
    copy_files(fs_ref fs, char const* text, file_range const* ranges, std::uint64_t count,
               std::uint64_t* next, std::int32_t* errors, std::byte* chunks,
               std::uint64_t chunk_bytes, std::uint64_t* done) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(fs, block);
  __shared__ std::uint64_t mine;
  for (;;) {
    block.sync();  // the last use of `mine` is over
    if (threadIdx.x == 0)
      mine = atomic_ref<std::uint64_t, scope::device>(*next).fetch_add(1, memory_order_relaxed);
    block.sync();
    if (mine >= count) return;
    file_range const p = ranges[mine];
    std::int32_t const error =
        copy_one(io, text, p, chunks + blockIdx.x * chunk_bytes, chunk_bytes, done[blockIdx.x]);
    if (error != 0 && threadIdx.x == 0) {
      std::int32_t none = 0;  // relaxed: the host reads after the kernel
      atomic_ref<std::int32_t, scope::device>(errors[p.file])
          .compare_exchange_strong(none, error, memory_order_relaxed, memory_order_relaxed);
    }
  }
}

}  // namespace

std::vector<std::int32_t> run_copy(filesystem& fs, std::vector<copied_file> const& files,
                                   copy_shape const& shape,
                                   std::function<void(std::uint64_t)> const& show) {
  std::string text;
  std::vector<file_range> ranges;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::uint64_t const from = text.size();
    text.append(files[i].from).push_back('\0');
    std::uint64_t const to = text.size();
    text.append(files[i].part).push_back('\0');
    std::uint64_t const count =
        std::max<std::uint64_t>((files[i].bytes + range_bytes - 1) / range_bytes, 1);
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
  buffer<std::uint64_t> next(1);
  next.fill_zero();
  buffer<std::int32_t> errors(files.size());
  errors.fill_zero();
  buffer<std::byte> chunks(shape.blocks * shape.chunk_bytes);
  pinned_buffer<std::uint64_t> done(shape.blocks);
  done.fill_zero();
  load_kernel(copy_files);
  launch(copy_files, shape.blocks, shape.threads, fs.ref(), names.data(), on_device.data(),
         std::uint64_t(ranges.size()), next.data(), errors.data(), chunks.data(), shape.chunk_bytes,
         done.data());
  show_progress(this_thread_stream(), done, show);
  this_thread_stream().synchronize();
  std::vector<std::int32_t> result(files.size());
  errors.copy_to_host(result.data(), result.size());
  return result;
}

}  // namespace gpufs::apps
