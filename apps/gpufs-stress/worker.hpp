// The kernel of gpufs-stress: groups that read, write, map and sync cells of a file, and check each
// byte they see against the versions that it may have.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <apps/gpufs-stress/plan.hpp>

#include <cstdint>

namespace gpufs::stress {

/// Versions of a cell, in device memory. Its owner alone stores them.
struct cell_versions {
  std::uint32_t acknowledged;  ///< of the last gwrite that succeeded
  std::uint32_t begun;         ///< of the last gwrite that began
};

/// A call or a byte that was wrong.
struct wrong_operation {
  std::uint32_t worker;
  std::uint32_t operation;
  std::int32_t kind;    ///< an operation_kind
  std::int64_t result;  ///< of the call
  std::uint64_t cell;
  std::uint64_t byte;    ///< of the cell
  std::uint32_t lowest;  ///< versions that the byte may have
  std::uint32_t highest;
  std::uint32_t value;
};

/// The first of them. Pinned, so that the host sees it at once, and after a crash, too.
struct finding {
  static constexpr std::uint32_t none = 0;
  static constexpr std::uint32_t claimed = 1;   ///< somebody stores what it is
  static constexpr std::uint32_t complete = 2;  ///< the host may read what it is

  std::uint32_t found;
  wrong_operation what;
};

/// What became of a record of the log file.
enum class append_state : std::uint8_t { not_tried, failed, acknowledged };

enum class operation_kind : std::int32_t {
  write,
  read,
  read_many,
  element,
  map,
  sync,
  open_again,
  append,
  advise
};
[[nodiscard]] char const* name_of(operation_kind kind);

/// What a worker has done, for the host. Pinned; the worker alone stores it.
struct worker_progress {
  std::uint64_t operations;
  std::uint64_t bytes;  ///< compared
  std::uint64_t syncs;  ///< gfsyncs that succeeded
};

/// What the threads of a worker share, in device memory. It lasts from kernel to kernel.
struct worker_state {
  std::uint64_t bytes;       ///< compared; all threads add to it
  std::uint64_t operations;  ///< for the worker's first thread, as the rest
  std::uint64_t syncs;
  std::uint32_t ended;         ///< 1: no further operation; all threads read it
  std::uint32_t has_reported;  ///< 1: something was wrong; all threads set it
};

/// What all workers of one filesystem get. Arrays over cells have an entry for each cell of the
/// file; arrays over workers one for each worker of this filesystem.
struct stress_job {
  std::uint64_t seed;
  std::uint32_t filesystem;
  std::uint32_t filesystems;
  std::uint32_t workers;  ///< of each filesystem
  std::uint32_t owners;
  std::uint32_t operations;
  std::uint32_t writes;  ///< round_plan::writes
  operation_weights weights;
  std::uint32_t cells_at_once;
  std::uint32_t launch;
  std::uint32_t impatient;
  std::uint32_t filled;
  std::uint32_t host_writes;
  std::uint32_t foreign_writes;
  std::int32_t fd;      ///< O_RDWR
  std::int32_t log_fd;  ///< O_APPEND
  char const* path;
  std::uint64_t cells;
  std::uint64_t cell_bytes;
  cell_versions* versions;
  std::uint32_t* synced;       ///< over cells, pinned
  append_state* appends;       ///< over workers x launches x operations
  std::uint32_t appends_each;  ///< launches x operations
  std::byte* memory;           ///< over workers: room for cells_at_once cells and a record each
  std::uint64_t memory_stride;
  worker_state* states;       ///< over workers
  worker_progress* progress;  ///< over workers, pinned
  std::uint32_t* end;         ///< pinned: 1 once the workers are to end
  finding* first;
};

/// Launches the workers of one filesystem on this thread's stream.
void launch_workers(round_plan const& plan, fs_ref const& fs, stress_job const& job);

}  // namespace gpufs::stress
