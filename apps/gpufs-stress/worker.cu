#include <gpufs/gpufs.hpp>

#include <apps/gpufs-stress/cell_check.hpp>
#include <apps/gpufs-stress/worker.hpp>
#include <apps/gpufs-stress/worker_news.hpp>

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
        news_(job, number),
        number_(number),
        owner_(job.filesystem * job.workers + number),
        memory_(job.memory + number * job.memory_stride) {}

  __device__ void run() {
    seed_ = operation_seed(job_.seed, job_.launch, owner_, job_.operations);
    cell_ = any_cell();
    for (operation_ = 0; operation_ < job_.operations; ++operation_) {
      seed_ = operation_seed(job_.seed, job_.launch, owner_, operation_);
      draws_ = 0;
      compared_ = 0;
      carry_out();
      if (news_.tell(group_, compared_)) return;
    }
  }

 private:
  __device__ std::uint64_t draw(std::uint64_t limit) {
    return apps::generate(seed_, draws_++) % limit;
  }
  /// A cell of this filesystem's workers.
  __device__ std::uint64_t any_cell() {
    std::uint32_t const owner =
        job_.filesystem * job_.workers + static_cast<std::uint32_t>(draw(job_.workers));
    return owner + draw(cells_of(owner, job_.cells, job_.owners)) * job_.owners;
  }
  __device__ std::int64_t place_of(std::uint64_t cell) const {
    return static_cast<std::int64_t>(cell * job_.cell_bytes);
  }

  __device__ void report(std::int64_t result, std::uint64_t cell, std::uint64_t byte,
                         std::uint32_t lowest = 0, std::uint32_t highest = 0,
                         std::uint32_t value = 0) {
    news_.report({number_, operation_, static_cast<std::int32_t>(kind_), result, cell, byte, lowest,
                  highest, value});
  }

  /// Whether a call did all of `wanted`. Reports what may not happen. All threads call.
  __device__ bool succeeded(std::int64_t result, std::int64_t wanted) {
    if (result == wanted) return true;
    bool const may_fail =
        job_.impatient != 0 && (result == -ETIMEDOUT || result == -EAGAIN || result == -ENOMEM ||
                                (result >= 0 && result < wanted));
    if (!may_fail && group_.thread_rank() == 0) report(result, ~0ull, 0);
    return false;
  }

  /// Compares bytes [from, to) of a word. Returns whether they are right.
  __device__ bool check_word(cell_check& check, std::uint64_t cell, std::uint64_t word,
                             std::uint64_t value, unsigned from, unsigned to) {
    compared_ += to - from;
    unsigned const wrong = check.first_wrong(word, value, from, to);
    if (wrong == to) return true;
    report(0, cell, 8 * word + wrong, check.lowest(), check.highest(),
           static_cast<std::uint32_t>(value >> 8 * wrong & 0xff));
    return false;
  }

  /// The threads share the bytes [first, first + count) of a cell, which lie at `bytes`. Each stops
  /// at its first wrong word: to compare one takes a trip to the host's memory.
  /// @tparam Byte, Word  volatile where other groups may store to them meanwhile
  template <class Byte = std::byte const, class Word = std::uint64_t const>
  __device__ void check_bytes(std::uint64_t cell, std::uint64_t first, std::uint64_t count,
                              Byte* bytes, std::uint32_t lowest) {
    cell_check check(job_, cell, lowest);
    std::uint64_t const end = first + count;
    bool const is_aligned = (reinterpret_cast<std::uintptr_t>(bytes) - first) % 8 == 0;
    for (std::uint64_t w = first / 8 + group_.thread_rank(); 8 * w < end;
         w += group_.num_threads()) {
      auto const from = static_cast<unsigned>(8 * w < first ? first - 8 * w : 0);
      auto const to = static_cast<unsigned>(end - 8 * w < 8 ? end - 8 * w : 8);
      std::uint64_t value = 0;
      if (is_aligned && from == 0 && to == 8) {
        value = *reinterpret_cast<Word*>(bytes + (8 * w - first));
      } else {
        for (unsigned k = from; k < to; ++k)
          value |= static_cast<std::uint64_t>(std::byte{bytes[8 * w + k - first]}) << 8 * k;
      }
      if (!check_word(check, cell, w, value, from, to)) return;
    }
  }

  __device__ void carry_out() {
    if (draw(100) < job_.writes) return write();  // as is_write() says
    operation_weights const& weights = job_.weights;
    std::uint64_t choice = draw(weights.sum());
    auto const is = [&](unsigned weight) {
      bool const chosen = choice < weight;
      choice -= weight;
      return chosen;
    };
    if (is(weights.read)) return read(job_.fd);
    if (is(weights.read_many)) return read_many();
    if (is(weights.element)) return read_elements();
    if (is(weights.map)) return map();
    if (is(weights.sync)) return sync();
    if (is(weights.open_again)) return open_again();
    if (is(weights.append)) return append();
    advise();
  }

  __device__ void write() {
    kind_ = operation_kind::write;
    std::uint64_t const cell = written_cell(seed_, owner_, job_.cells, job_.owners);
    std::uint64_t const key = cell_key(job_.seed, cell);
    cell_versions& versions = job_.versions[cell];
    // Of this group alone. Others add nothing to it.
    std::uint32_t const next =
        atomic_ref<std::uint32_t>(versions.begun).load(memory_order_relaxed) + 1;
    auto* const words = reinterpret_cast<std::uint64_t*>(memory_);
    for (std::uint64_t w = group_.thread_rank(); w < job_.cell_bytes / 8; w += group_.num_threads())
      words[w] = cell_word(key, next, w, true);
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
    std::uint32_t const lowest = acknowledged(job_, cell);
    ssize_t const n = gread(io_, fd, memory_, count, place_of(cell) + std::int64_t(first));
    if (succeeded(n, static_cast<std::int64_t>(count)))
      check_bytes(cell, first, count, memory_, lowest);
    group_.sync();
  }

  /// Goes on where the last such operation ended, or at another cell.
  __device__ void read_many() {
    kind_ = operation_kind::read_many;
    if (draw(8) == 0 || cell_ >= job_.cells) cell_ = any_cell();
    std::uint64_t const cells =
        job_.cells - cell_ < job_.cells_at_once ? job_.cells - cell_ : job_.cells_at_once;
    std::uint32_t lowest[round_plan::most_cells_at_once];
    for (unsigned i = 0; i < cells; ++i) lowest[i] = acknowledged(job_, cell_ + i);
    auto const count = static_cast<std::int64_t>(cells * job_.cell_bytes);
    ssize_t const n =
        gread(io_, job_.fd, memory_, static_cast<std::uint64_t>(count), place_of(cell_));
    if (succeeded(n, count)) {
      for (unsigned i = 0; i < cells; ++i) {
        if (is_known(job_, cell_ + i))
          check_bytes(cell_ + i, 0, job_.cell_bytes, memory_ + i * job_.cell_bytes, lowest[i]);
      }
    }
    cell_ += cells;
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
    std::uint32_t const lowest = acknowledged(job_, cell);
    std::uint64_t const value = words[static_cast<std::uint64_t>(place_of(cell)) / 8 + word];
    if (words.error() == 0) {
      cell_check check(job_, cell, lowest);
      check_word(check, cell, word, value, 0, 8);
    } else if (job_.impatient == 0) {
      report(words.error(), cell, 0);
    }
    group_.sync();
  }

  __device__ void map() {
    kind_ = operation_kind::map;
    std::uint64_t const cell = any_cell();
    std::uint32_t const lowest = acknowledged(job_, cell);
    void* address = nullptr;
    ssize_t const n = gmmap(io_, job_.fd, job_.cell_bytes, place_of(cell), PROT_READ, &address);
    if (n <= 0) {
      succeeded(n, static_cast<std::int64_t>(job_.cell_bytes));
      return;
    }
    check_bytes<std::byte const volatile, std::uint64_t const volatile>(
        cell, 0, static_cast<std::uint64_t>(n), static_cast<std::byte const volatile*>(address),
        lowest);
    if (gmunmap(io_, address) != 0 && group_.thread_rank() == 0) report(-EINVAL, cell, 0);
  }

  __device__ void sync() {
    kind_ = operation_kind::sync;
    // Only this group raises its cells' versions, so they do not change meanwhile.
    if (!succeeded(gfsync(io_, job_.fd), 0) || group_.thread_rank() != 0) return;
    for (std::uint64_t cell = owner_; cell < job_.cells; cell += job_.owners) {
      atomic_ref<std::uint32_t, scope::system>(job_.synced[cell])
          .store(job_.versions[cell].acknowledged, memory_order_relaxed);
    }
    news_.tell_sync();
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
    int closed = 0;
    do {
      closed = gclose(io_, fd);
    } while (job_.impatient != 0 && closed == -EAGAIN);  // it stays open then
    succeeded(closed, 0);
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
  worker_news news_;
  std::uint32_t const number_;  ///< of the filesystem's workers
  std::uint32_t const owner_;   ///< of all owners of cells
  std::byte* const memory_;
  std::uint32_t operation_ = 0;
  std::uint64_t seed_ = 0;  ///< of the operation
  std::uint64_t draws_ = 0;
  std::uint64_t cell_ = 0;      ///< where read_many() goes on
  std::uint64_t compared_ = 0;  ///< bytes, by this thread in this operation
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

void launch_workers(round_plan const& plan, fs_ref const& fs, stress_job const& job) {
  launch(plan.tiles ? tile_workers : block_workers, plan.blocks, plan.threads, fs, job);
}

}  // namespace gpufs::stress
