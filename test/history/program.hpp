// A random program of file calls: actors, calls, settings. And the history that it leaves: when
// each call began and ended, and its result.
#pragma once

#include <gpufs/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>

namespace gpufs::history {

enum class call_kind : std::uint32_t {
  context,  ///< the actor ends its io_context and makes another
  open,
  close,
  read,
  gather,  ///< reads `count` bytes, a power of two, through array<T const>, in scattered order
  write,
  sync,
  sync_all,  ///< fs.sync() of the host
  truncate,
  size,   ///< gfstat, fs.stat, fstat(2)
  age,    ///< lets the file's time stamps grow old
  crash,  ///< not a call: what the storage holds after a loss of power
};

/// block    a threadblock, or a 32-thread tile, of a kernel
/// host     a thread that calls members of gpufs::filesystem
/// outsider another process, or a thread, that uses system calls
enum class actor_kind : std::uint32_t { block, host, outsider };

/// Actors of one phase run side by side, each its own calls in order.
struct actor {
  actor_kind kind = actor_kind::host;
  unsigned phase = 0;
  unsigned kernel = 0;  ///< block: kernels of a phase have different numbers
};

struct call {
  call_kind what = call_kind::read;
  std::uint32_t actor = 0;
  std::uint32_t filesystem = 0;  ///< 1 or 2; 0: outsider
  std::uint32_t after = 0;       ///< 1 + number of the call that it waits for; 0: none
  std::int32_t handle = -1;      ///< the one that it uses, or (open) makes
  std::int32_t flags = 0;        ///< of open
  std::int64_t offset = 0;       ///< truncate: the size
  std::uint64_t count = 0;
  std::uint32_t tag = 0;     ///< write: names it; no other write has it
  std::uint32_t stride = 1;  ///< gather: from one byte to the next
};

struct program {
  std::uint64_t seed = 0;
  config settings{};
  std::uint64_t initial_size = 0;
  unsigned block_threads = 64;
  unsigned filesystems = 1;
  bool tiles = false;    ///< blocks are tiles
  bool process = false;  ///< outsiders' calls are made by another process
  bool slow = false;     ///< the daemon's system calls take a little longer, at random
  std::uint32_t fail_from = 0, fail_until = 0;  ///< writes of write-back that fail with -ENOSPC
  std::vector<actor> actors{};
  std::vector<call> calls{};

  [[nodiscard]] bool fails() const { return fail_until > fail_from; }
};

/// Stamps are of one clock. A call ended before another began if its `end` is below that `begin`.
struct outcome {
  std::uint64_t begin = 0, end = 0;
  std::int64_t result = 0;
  std::vector<std::byte> bytes{};  ///< of read, gather and crash
};
using history = std::vector<outcome>;

// Values. Each byte in the file tells which write it is of. Appends have tags below
// `first_placed_tag`, and all their bytes are the tag: their place is not known before. The bytes
// of other writes depend on their place, too, so that misplaced bytes are found. 0 is no value of
// any write.
inline constexpr std::uint32_t first_placed_tag = 64, tags = 256, initial_tag = first_placed_tag;

[[nodiscard]] std::byte value_of(std::uint32_t tag, std::uint64_t offset);
/// The tag of a byte at `offset` that is not 0.
[[nodiscard]] std::uint32_t tag_of(std::byte value, std::uint64_t offset);

[[nodiscard]] inline bool opens_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

/// The program's settings and calls, a line each; with a history also their stamps and results.
[[nodiscard]] std::string to_text(program const& p, history const* h = nullptr);

/// The program with its end: all handles are closed, then the host and one block of each filesystem
/// read the file.
[[nodiscard]] program with_end(program p);

/// A random program. All choices follow from the seed. With ThreadSanitizer it has no overlaps
/// (test/history/overlaps.hpp).
[[nodiscard]] program generate(std::uint64_t seed);

}  // namespace gpufs::history
