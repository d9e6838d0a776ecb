#include <gpufs/array.hpp>
#include <gpufs/gpufs.hpp>

#include <test/history/device_calls.hpp>

#include <cstring>

namespace gpufs::history {

namespace {

namespace cg = cooperative_groups;

struct kernel_arguments {
  fs_ref fs;
  recorder_ref to;
  device_call const* calls;
  std::uint32_t count;
  std::int32_t* errors;  ///< of gathers, by slot
  std::byte* memory;
  char const* path;
};

/// Reads a power of two of bytes in scattered order. Returns `count`, or the error of some thread.
template <class Group>
__device__ std::int64_t gather(io_context<Group>& io, int fd, device_call const& c,
                               std::int32_t& first_error, std::byte* to) {
  array<unsigned char const> const from(io, fd, c.offset, c.count);
  int error = from.error();
  if (error == 0) {
    auto const threads = static_cast<std::uint64_t>(io.group().num_threads());
    for (std::uint64_t i = io.group().thread_rank(); i < c.count; i += threads) {
      std::uint64_t const at = i * 37 % c.count;
      to[at] = static_cast<std::byte>(from[at]);
    }
    error = from.error();
  }
  atomic_ref<std::int32_t, scope::device> shared(first_error);
  if (error != 0) shared.store(error, memory_order_relaxed);
  io.group().sync();
  error = shared.load(memory_order_relaxed);
  return error != 0 ? error : static_cast<std::int64_t>(c.count);
}

template <class Group>
__device__ std::int64_t do_call(io_context<Group>& io, kernel_arguments const& a,
                                device_call const& c, int fd) {
  std::byte* const bytes = a.memory + c.place;
  switch (c.what) {
    case call_kind::open: return gopen(io, a.path, c.flags);
    case call_kind::close: return gclose(io, fd);
    case call_kind::read: return gread(io, fd, bytes, c.count, c.offset);
    case call_kind::gather: return gather(io, fd, c, a.errors[c.slot], bytes);
    case call_kind::write: return gwrite(io, fd, bytes, c.count, c.offset);
    case call_kind::sync: return gfsync(io, fd);
    case call_kind::truncate: return gftruncate(io, fd, c.offset);
    case call_kind::size: {
      file_status status{};
      int const error = gfstat(io, fd, &status);
      return error != 0 ? error : static_cast<std::int64_t>(status.size);
    }
    default: return 0;
  }
}

/// Waits for the call that this one comes after, and takes the first stamp.
template <class Group>
__device__ void begin_call(Group const& group, recorder_ref const& to, device_call const& c) {
  if (group.thread_rank() == 0) {
    if (c.after != 0) {
      unsigned pause = 0;
      while (atomic_ref<std::uint32_t, scope::system>(to.records[c.after - 1].finished)
                 .load(memory_order_acquire) == 0)
        backoff(pause);
    }
    to.records[c.number].begin = device_stamp(to);
  }
  group.sync();
}

template <class Group>
__device__ void end_call(Group const& group, recorder_ref const& to, device_call const& c,
                         std::int64_t result) {
  group.sync();
  if (group.thread_rank() == 0) {
    record& r = to.records[c.number];
    r.end = device_stamp(to);
    r.result = result;
    if (c.what == call_kind::open) to.handles[c.handle] = static_cast<std::int32_t>(result);
    atomic_ref<std::uint32_t, scope::system>(r.finished).store(1, memory_order_release);
  }
  group.sync();
}

/// All calls of one caller. A context lasts until the next call of that kind.
template <class Group>
__device__ void make_calls(kernel_arguments const& a, Group const& group, std::uint32_t caller) {
  for (std::uint32_t i = 0; i < a.count;) {
    std::uint32_t const first = i;
    if (a.calls[i].caller != caller) {
      ++i;
      continue;
    }
    bool const makes = a.calls[i].what == call_kind::context;
    if (makes) begin_call(group, a.to, a.calls[i]);
    io_context io(a.fs, group);
    if (makes) {
      end_call(group, a.to, a.calls[i], 0);
      ++i;
    }
    for (; i < a.count &&
           (a.calls[i].caller != caller || i == first || a.calls[i].what != call_kind::context);
         ++i) {
      device_call const& c = a.calls[i];
      if (c.caller != caller) continue;
      begin_call(group, a.to, c);
      int const fd = c.handle < 0 || c.what == call_kind::open
                         ? -1
                         : *static_cast<std::int32_t volatile*>(a.to.handles + c.handle);
      end_call(group, a.to, c, do_call(io, a, c, fd));
    }
  }
}

__global__ __launch_bounds__(128) void by_blocks(kernel_arguments a) {
  make_calls(a, cg::this_thread_block(), blockIdx.x);
}

__global__ __launch_bounds__(128) void by_tiles(kernel_arguments a) {
  auto const block = cg::this_thread_block();
  auto const tile = cg::tiled_partition<32>(block);
  make_calls(a, tile, blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
}

}  // namespace

device_part::device_part(program const& p, std::vector<std::uint32_t> const& callers)
    : blocks_(unsigned(callers.size())), threads_(p.block_threads), tiles_(p.tiles) {
  if (tiles_) blocks_ = (blocks_ * 32 + threads_ - 1) / threads_;
  for (std::size_t i = 0; i < p.calls.size(); ++i)
    for (std::uint32_t k = 0; k < callers.size(); ++k)
      if (p.calls[i].actor == callers[k]) add(p, i, k);
  device_calls_ = buffer<device_call>(calls_.size());
  device_calls_.copy_from_host(calls_.data(), calls_.size());
  device_memory_ = buffer<std::byte>(memory_.size() + 1);
  device_memory_.copy_from_host(memory_.data(), memory_.size());
  errors_ = buffer<std::int32_t>(calls_.size() + 1);
  errors_.fill_zero();
}

void device_part::add(program const& p, std::size_t number, std::uint32_t caller) {
  auto const& c = p.calls[number];
  device_call d{
      c.what, std::uint32_t(number),       caller, c.after, c.handle, c.flags, c.offset, c.count,
      0,      std::uint32_t(calls_.size())};
  if (c.count != 0) {
    d.place = (memory_.size() + 63) / 64 * 64 + number % 5;  // misaligned now and then
    memory_.resize(d.place + c.count);
    for (std::uint64_t k = 0; k < c.count && c.what == call_kind::write; ++k)
      memory_[d.place + k] = value_of(c.tag, std::uint64_t(c.offset) + k);
  }
  calls_.push_back(d);
}

void device_part::start(filesystem const& fs, recorder_ref const& to, buffer<char> const& path) {
  if (calls_.empty()) return;
  kernel_arguments const a{fs.ref(),
                           to,
                           device_calls_.data(),
                           std::uint32_t(calls_.size()),
                           errors_.data(),
                           device_memory_.data(),
                           path.data()};
  launch({.grid = blocks_, .block = threads_, .on = &stream_}, tiles_ ? by_tiles : by_blocks, a);
}

void device_part::wait() {
  if (!calls_.empty()) stream_.synchronize();
}

void device_part::fetch(history& h) {
  if (calls_.empty()) return;
  device_memory_.copy_to_host(memory_.data(), memory_.size());
  for (auto const& c : calls_) {
    bool const reads = c.what == call_kind::read || c.what == call_kind::gather;
    auto& o = h[c.number];
    if (!reads || o.result <= 0) continue;
    auto const from = memory_.begin() + std::ptrdiff_t(c.place);
    o.bytes.assign(from, from + std::ptrdiff_t(o.result));
  }
}

void load_kernels() {
  load_kernel(by_blocks);
  load_kernel(by_tiles);
}

}  // namespace gpufs::history
