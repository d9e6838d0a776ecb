// Kernels whose machine code machine_order.py reads. Each has one access whose order another thread
// relies on, without a fence (docs/memory-model.md). They are compiled, never run.
#include <gpufs/gpufs.hpp>

using namespace gpufs;

// An element is loaded, then the frame's state (cache/peek.hpp).
template <class T>
__device__ __forceinline__ void peek(std::byte const* from, cache::frame_header* seen,
                                     std::uint64_t state, T* value, bool* valid) {
  std::uint32_t mark = 0;
  T const loaded = cache::load_now<T>(from, mark);
  *valid = cache::still_there(seen, state, mark);
  *value = loaded;
}
struct bytes_3 {
  unsigned char b[3];
};
#define PEEK(name, type)                                                                   \
  extern "C" __global__ void peek_##name(std::byte const* from, cache::frame_header* seen, \
                                         std::uint64_t state, type* value, bool* valid) {  \
    peek(from, seen, state, value, valid);                                                 \
  }
PEEK(1, unsigned char)
PEEK(1_bool, bool)
PEEK(2, unsigned short)
PEEK(3, bytes_3)
PEEK(4, float)
PEEK(4_of_2, ushort2)
PEEK(8, double)
PEEK(16, float4)

// The state of a frame is loaded, then its name (cache/peek.hpp).
extern "C" __global__ void see(handle::page_cache_ref cache, std::uint32_t frame,
                               std::uint64_t version, std::uint64_t page, cache::seen_frame* seen) {
  cache::see_frame(cache, frame, version, page, *seen);
}

// The same, with an element that is loaded before the name is known, and then the state once more
// (io/element/array.hpp).
template <class T>
__device__ __forceinline__ void find(handle::page_cache_ref const& cache, std::uint32_t frame,
                                     std::uint64_t version, std::uint64_t page, T* value,
                                     bool* valid) {
  cache::seen_frame seen;
  std::uint32_t mark = 0;
  T loaded{};
  auto const early = [&](std::byte const* bytes) { loaded = cache::load_now<T>(bytes, mark); };
  if (!cache::see_frame(cache, frame, version, page, seen, early)) return;
  *valid = cache::still_there(seen.header, seen.state, mark);
  *value = loaded;
}
#define FIND(name, type)                                                                         \
  extern "C" __global__ void find_##name(handle::page_cache_ref cache, std::uint32_t frame,      \
                                         std::uint64_t version, std::uint64_t page, type* value, \
                                         bool* valid) {                                          \
    find(cache, frame, version, page, value, valid);                                             \
  }
FIND(1, unsigned char)
FIND(2, unsigned short)
FIND(4, float)
FIND(8, double)
FIND(16, float4)

// Words are stored and settled, then announced (base/settled.hpp).
template <class T>
__device__ __forceinline__ void settled(T* word, std::uint32_t* flag) {
  word[0] = 1;
  word[1] = 2;
  base::settle(word[0], word[1]);
  atomic_ref<std::uint32_t, scope::device>(*flag).store(1, base::after_settling);
}
extern "C" __global__ void settle_1(std::uint8_t* word, std::uint32_t* flag) {
  settled(word, flag);
}
extern "C" __global__ void settle_8(std::uint64_t* word, std::uint32_t* flag) {
  settled(word, flag);
}

// Pulled bytes are stored to a frame and settled, then the page is published and the staging piece
// given back (io/read/end_batch.hpp).
extern "C" __global__ void pull(fs_ref fs, std::byte* frame, std::byte const* staging,
                                std::uint64_t bytes, ring::channel channel) {
  base::warp_pull(frame, staging, 0, bytes, bytes, {nullptr, 0, 0});
  base::settle_frame(frame, 0, bytes, base::all_lanes, lane_id(), base::warp_size);
  if (lane_id() == 0) {
    cache::publish(fs.cache.headers[0], 1, base::after_settling);
    ring::return_channel(fs.channels.page, channel, true, base::after_settling);
  }
}

// The same for two pages at a time, which are settled together (io/read/read_by_warps.hpp).
extern "C" __global__ void pull_two(fs_ref fs, base::page_pull a, base::page_pull b,
                                    std::uint32_t bytes, ring::channel channel) {
  base::warp_pull_two(a, b, bytes);
  std::byte const* const frames[] = {a.frame, b.frame};
  base::settle_frames(frames, bytes);
  if (lane_id() == 0) {
    cache::publish(fs.cache.headers[0], 1, base::after_settling);
    ring::return_channel(fs.channels.page, channel, true, base::after_settling);
  }
}

// Bytes of a page are read, then its pin goes (cache/frame.hpp).
extern "C" __global__ void unpin(cache::frame_header* header, std::byte const* frame,
                                 std::byte* out, std::uint64_t bytes) {
  base::warp_copy(out, frame, bytes);
  __syncwarp();
  if (lane_id() == 0) cache::unpin_read(*header);
}

// The same by a quick hit of gread, which begins its loads before it knows the page's name
// (io/read/quick_hits.hpp).
extern "C" __global__ void quick_hit(handle::page_cache_ref cache, std::uint64_t version,
                                     std::uint64_t page, std::byte* to, io::slice part,
                                     io::quick_look* look) {
  *look = io::read_quick_hit(cache, version, page, to, part);
}

// Staging is pulled from, then the ring gets the request that overwrites it (ring/submit.hpp).
extern "C" __global__ void request(fs_ref fs, std::byte* frame, std::byte const* staging,
                                   std::uint64_t bytes, rpc::request r) {
  base::warp_pull(frame, staging, 0, bytes, bytes, {nullptr, 0, 0});
  base::settle_frame(frame, 0, bytes, base::all_lanes, lane_id(), base::warp_size);
  ring::submit(fs, r);
}

// A descriptor's record in GPU memory, under a sequence (file/file_record.hpp).
extern "C" __global__ void share_record(file::record_share* share, std::uint64_t number,
                                        file::used_file known) {
  file::share_record(*share, number, known);
}
extern "C" __global__ void take_record(file::record_share* share, std::uint64_t begun,
                                       std::int32_t fd, file::used_file* out,
                                       file::shared_record* result) {
  *result = file::take_shared_record(*share, begun, fd, *out);
}

// Version and size of a written file (file/shared_file.hpp).
extern "C" __global__ void adopt(fs_ref fs, file::shared_file* file, std::uint64_t version,
                                 std::uint64_t size) {
  file::adopt(fs, *file, version, size);
}
extern "C" __global__ void load_size(file::shared_file* file, std::uint64_t version,
                                     std::uint64_t* size, bool* result) {
  *result = file::load_size(*file, version, *size);
}
extern "C" __global__ void load_noted(file::shared_file* file, std::uint64_t version,
                                      std::uint64_t* size, bool* result) {
  *result =
      file::load_size(*file, version, *size, file::untaken_of(*file).load(memory_order_relaxed));
}

// An element is loaded under a pin, which then goes (io/element/element.hpp). Elements of a kept
// page stay in registers, then the page is given back through a pointer (io/element/array.hpp).
extern "C" __global__ void elements(fs_ref fs, int fd, std::uint64_t const* index,
                                    unsigned long long* sum, unsigned count) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<unsigned char const> const bytes(io, fd);
  held_ptr<unsigned char const> const pointer = bytes.pointer(0);
  for (unsigned k = threadIdx.x; k < count; k += blockDim.x) *sum += bytes[index[k]] + pointer[k];
}

// A loop asks for several elements of a kept page before it needs the first (io/element/array.hpp).
extern "C" __global__ void stream(fs_ref fs, int fd, std::uint64_t* sums, std::uint64_t count) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<std::uint64_t const> const words(io, fd);
  std::uint64_t sum = 0;
  for (std::uint64_t i = threadIdx.x; i + 3 * base::warp_size < count; i += 4 * base::warp_size) {
    std::uint64_t found[4];
    GPUFS_UNROLL
    for (unsigned k = 0; k < 4; ++k) found[k] = words[i + k * base::warp_size];
    GPUFS_UNROLL
    for (unsigned k = 0; k < 4; ++k) sum += found[k];
  }
  sums[threadIdx.x] = sum;
}
