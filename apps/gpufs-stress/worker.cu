#include <gpufs/gpufs.hpp>

#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/worker.hpp>

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>

namespace gpufs::stress {

namespace {

namespace cg = cooperative_groups;

/// One group's random walk over the files.
template <class Group>
class worker {
 public:
  __device__ worker(fs_ref const& fs, Group const& group, stress_job const& job,
                    std::uint32_t number)
      : io_(fs, group),
        group_(group),
        job_(job),
        number_(number),
        owner_(job.filesystem * job.workers + number),
        memory_(job.memory + number * job.memory_stride) {}

  __device__ void run() {
    for (operation_ = 0; operation_ < job_.operations; ++operation_) {
      seed_ = apps::generate(job_.seed + job_.launch, std::uint64_t(owner_) << 32 | operation_);
      draws_ = 0;
      carry_out();
      if (group_.thread_rank() == 0) {
        // Relaxed: a number to watch.
        atomic_ref<std::uint64_t, scope::system>(*job_.progress).fetch_add(1, memory_order_relaxed);
      }
    }
    atomic_ref<std::uint64_t>(*job_.verified).fetch_add(verified_, memory_order_relaxed);
  }

 private:
  struct cell_range {
    std::uint32_t lowest;
    std::uint32_t highest;
  };

  __device__ std::uint64_t draw(std::uint64_t limit) {
    return apps::generate(seed_, draws_++) % limit;
  }
  __device__ std::uint64_t cell_of(std::uint32_t owner) {
    std::uint64_t const cells = (job_.cells - owner + job_.owners - 1) / job_.owners;
    return owner + draw(cells) * job_.owners;
  }
  __device__ std::uint64_t any_cell() {
    auto const who = static_cast<std::uint32_t>(draw(job_.workers));
    return cell_of(job_.filesystem * job_.workers + who);
  }
  __device__ bool is_ours(std::uint64_t cell) const {
    auto const owner = static_cast<std::uint32_t>(cell % job_.owners);
    return owner >= job_.filesystem * job_.workers && owner < (job_.filesystem + 1) * job_.workers;
  }
  __device__ std::int64_t place_of(std::uint64_t cell) const {
    return static_cast<std::int64_t>(cell * job_.cell_bytes);
  }

  // A reader loads `acknowledged` before its call and `begun` after it. The acquire pairs with the
  // owner's release: the call must see that gwrite. A byte of a later version was stored after
  // `begun` rose; the load comes after the byte's.
  __device__ std::uint32_t acknowledged(std::uint64_t cell) const {
    return atomic_ref<std::uint32_t>(job_.versions[cell].acknowledged).load(memory_order_acquire);
  }
  __device__ std::uint32_t begun(std::uint64_t cell) const {
    // An addition of nothing: unlike a load, its release keeps the loads before it in their place.
    return atomic_ref<std::uint32_t>(job_.versions[cell].begun).fetch_add(0, memory_order_acq_rel);
  }

  __device__ void report(std::int64_t result, std::uint64_t cell, std::uint64_t byte,
                         cell_range allowed, std::uint32_t value) {
    finding& f = *job_.first;
    std::uint32_t nothing = 0;
    // Relaxed: the host reads the rest after the kernel.
    if (!atomic_ref<std::uint32_t, scope::system>(f.found).compare_exchange_strong(
            nothing, 1, memory_order_relaxed)) {
      return;
    }
    f.worker = number_;
    f.operation = operation_;
    f.kind = static_cast<std::int32_t>(kind_);
    f.result = result;
    f.cell = cell;
    f.byte = byte;
    f.lowest = allowed.lowest;
    f.highest = allowed.highest;
    f.value = value;
  }

  /// Whether a call did all of `wanted`. Reports what may not happen. All threads call.
  __device__ bool succeeded(std::int64_t result, std::int64_t wanted) {
    if (result == wanted) return true;
    bool const may_fail = job_.impatient != 0 && (result == -ETIMEDOUT || result == -ENOMEM ||
                                                  (result >= 0 && result < wanted));
    if (!may_fail && group_.thread_rank() == 0) report(result, ~0ull, 0, {}, 0);
    return false;
  }

  __device__ void check(std::uint64_t cell, std::uint64_t k, std::byte value, cell_range allowed) {
    ++verified_;
    for (std::uint32_t v = allowed.highest;; --v) {
      if (value == cell_byte(job_.seed, cell, v, k)) return;
      if (v == allowed.lowest) break;
    }
    report(0, cell, k, allowed, static_cast<std::uint32_t>(value));
  }

  /// The threads share the bytes [first, first + count) of a cell, which lie at `bytes`.
  __device__ void check_bytes(std::uint64_t cell, std::uint64_t first, std::uint64_t count,
                              std::byte const* bytes, cell_range allowed) {
    for (std::uint64_t k = group_.thread_rank(); k < count; k += group_.num_threads())
      check(cell, first + k, bytes[k], allowed);
  }

  __device__ void carry_out() {
    if (draw(100) < job_.writes) return write();
    std::uint64_t const choice = draw(70);
    if (choice < 25) {
      read(job_.fd);
    } else if (choice < 35) {
      read_many();
    } else if (choice < 45) {
      read_elements();
    } else if (choice < 52) {
      map();
    } else if (choice < 55) {
      sync();
    } else if (choice < 60) {
      open_again();
    } else if (choice < 67) {
      append();
    } else {
      advise();
    }
  }

  __device__ void write() {
    kind_ = operation_kind::write;
    std::uint64_t const cell = cell_of(owner_);
    cell_versions& versions = job_.versions[cell];
    std::uint32_t const next = versions.begun + 1;  // of this group alone
    for (std::uint64_t k = group_.thread_rank(); k < job_.cell_bytes; k += group_.num_threads())
      memory_[k] = cell_byte(job_.seed, cell, next, k);
    group_.sync();
    // Relaxed: gwrite begins with a barrier, which puts it before every byte of the new version.
    if (group_.thread_rank() == 0)
      atomic_ref<std::uint32_t>(versions.begun).store(next, memory_order_relaxed);
    ssize_t const n = gwrite(io_, job_.fd, memory_, job_.cell_bytes, place_of(cell));
    if (succeeded(n, static_cast<std::int64_t>(job_.cell_bytes)) && group_.thread_rank() == 0)
      atomic_ref<std::uint32_t>(versions.acknowledged).store(next, memory_order_release);
    group_.sync();
  }

  __device__ void read(int fd) {
    kind_ = fd == job_.fd ? operation_kind::read : operation_kind::open_again;
    std::uint64_t const cell = any_cell();
    std::uint64_t const first = draw(job_.cell_bytes);
    std::uint64_t const count = 1 + draw(job_.cell_bytes - first);
    std::uint32_t const lowest = acknowledged(cell);
    ssize_t const n = gread(io_, fd, memory_, count, place_of(cell) + std::int64_t(first));
    if (succeeded(n, static_cast<std::int64_t>(count)))
      check_bytes(cell, first, count, memory_, {lowest, begun(cell)});
    group_.sync();
  }

  __device__ void read_many() {
    kind_ = operation_kind::read_many;
    std::uint64_t const cell = any_cell();
    std::uint64_t const next = cell + 1 < job_.cells && is_ours(cell + 1) ? cell + 1 : cell;
    std::uint64_t const count = (next - cell + 1) * job_.cell_bytes;
    std::uint32_t const lowest = acknowledged(cell), lowest_next = acknowledged(next);
    ssize_t const n = gread(io_, job_.fd, memory_, count, place_of(cell));
    if (succeeded(n, static_cast<std::int64_t>(count))) {
      check_bytes(cell, 0, job_.cell_bytes, memory_, {lowest, begun(cell)});
      if (next != cell) {
        check_bytes(next, 0, job_.cell_bytes, memory_ + job_.cell_bytes,
                    {lowest_next, begun(next)});
      }
    }
    group_.sync();
  }

  /// Each thread loads a word of its own.
  __device__ void read_elements() {
    kind_ = operation_kind::element;
    array<std::uint64_t const> words(io_, job_.fd);
    std::uint64_t const mine = apps::generate(seed_, 1000 + group_.thread_rank());
    auto const who = static_cast<std::uint32_t>(mine % job_.workers);
    std::uint64_t const cell = job_.filesystem * job_.workers + who;
    std::uint64_t const word = (mine >> 32) % (job_.cell_bytes / 8);
    std::uint32_t const lowest = acknowledged(cell);
    std::uint64_t const value = words[static_cast<std::uint64_t>(place_of(cell)) / 8 + word];
    if (words.error() == 0) {
      cell_range const allowed{lowest, begun(cell)};
      for (unsigned k = 0; k < 8; ++k)
        check(cell, 8 * word + k, static_cast<std::byte>(value >> 8 * k), allowed);
    } else if (job_.impatient == 0) {
      report(words.error(), cell, 0, {}, 0);
    }
    group_.sync();
  }

  __device__ void map() {
    kind_ = operation_kind::map;
    std::uint64_t const cell = any_cell();
    std::uint32_t const lowest = acknowledged(cell);
    void* address = nullptr;
    ssize_t const n = gmmap(io_, job_.fd, job_.cell_bytes, place_of(cell), PROT_READ, &address);
    if (n <= 0) {
      succeeded(n, static_cast<std::int64_t>(job_.cell_bytes));
      return;
    }
    auto const* const bytes = static_cast<std::byte const volatile*>(address);
    for (ssize_t k = group_.thread_rank(); k < n; k += group_.num_threads()) {
      std::byte const value{bytes[k]};
      check(cell, std::uint64_t(k), value, {lowest, begun(cell)});
    }
    if (gmunmap(io_, address) != 0 && group_.thread_rank() == 0) report(-EINVAL, cell, 0, {}, 0);
  }

  __device__ void sync() {
    kind_ = operation_kind::sync;
    // Only this group raises its cells' versions, so they do not change meanwhile.
    if (!succeeded(gfsync(io_, job_.fd), 0) || group_.thread_rank() != 0) return;
    for (std::uint64_t cell = owner_; cell < job_.cells; cell += job_.owners) {
      atomic_ref<std::uint32_t, scope::system>(job_.synced[cell])
          .store(job_.versions[cell].acknowledged, memory_order_relaxed);
    }
  }

  __device__ void open_again() {
    kind_ = operation_kind::open_again;
    int const fd = gopen(io_, job_.path, draw(2) == 0 ? O_RDONLY : O_RDWR);
    if (fd < 0) {
      succeeded(fd, 0);
      return;
    }
    read(fd);
    kind_ = operation_kind::open_again;
    succeeded(gclose(io_, fd), 0);
  }

  __device__ void append() {
    kind_ = operation_kind::append;
    std::uint32_t const number = job_.launch * job_.operations + operation_;
    auto* const record =
        reinterpret_cast<std::uint64_t*>(memory_ + job_.memory_stride - record_bytes);
    if (group_.thread_rank() < record_bytes / 8) {
      record[group_.thread_rank()] =
          record_word(number_, number, static_cast<unsigned>(group_.thread_rank()));
    }
    group_.sync();
    ssize_t const n = gwrite(io_, job_.log_fd, record, record_bytes, 0);
    bool const done = succeeded(n, record_bytes);
    if (group_.thread_rank() != 0) return;
    job_.appends[std::uint64_t(number_) * job_.appends_each + number] =
        done ? append_state::acknowledged : append_state::failed;
  }

  __device__ void advise() {
    kind_ = operation_kind::advise;
    advice const kinds[] = {advice::normal, advice::random, advice::sequential, advice::dontneed};
    advice const what = kinds[draw(4)];
    succeeded(gfadvise(io_, job_.fd, place_of(any_cell()),
                       static_cast<std::int64_t>(job_.cell_bytes), what),
              0);
  }

  io_context<Group> io_;
  Group const& group_;
  stress_job const& job_;
  std::uint32_t const number_;  ///< of the filesystem's workers
  std::uint32_t const owner_;   ///< of all owners of cells
  std::byte* const memory_;
  std::uint32_t operation_ = 0;
  std::uint64_t seed_ = 0;  ///< of the operation
  std::uint64_t draws_ = 0;
  std::uint64_t verified_ = 0;
  operation_kind kind_ = operation_kind::write;
};

__global__ __launch_bounds__(512) void block_workers(fs_ref fs, stress_job job) {
  auto const block = cg::this_thread_block();
  worker walk(fs, block, job, blockIdx.x);
  walk.run();
}

__global__ __launch_bounds__(512) void tile_workers(fs_ref fs, stress_job job) {
  auto const block = cg::this_thread_block();
  auto const tile = cg::tiled_partition<32>(block);
  worker walk(fs, tile, job, blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  walk.run();
}

}  // namespace

char const* name_of(operation_kind kind) {
  switch (kind) {
    case operation_kind::write: return "gwrite";
    case operation_kind::read: return "gread";
    case operation_kind::read_many: return "gread of several cells";
    case operation_kind::element: return "array";
    case operation_kind::map: return "gmmap";
    case operation_kind::sync: return "gfsync";
    case operation_kind::open_again: return "gopen, gread, gclose";
    case operation_kind::append: return "gwrite with O_APPEND";
    case operation_kind::advise: return "gfadvise";
  }
  return "?";
}

void launch_workers(round_plan const& plan, fs_ref const& fs, stress_job const& job) {
  launch(plan.tiles ? tile_workers : block_workers, plan.blocks, plan.threads, fs, job);
}

}  // namespace gpufs::stress
