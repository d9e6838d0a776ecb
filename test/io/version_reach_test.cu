// A new version of a file reaches all who know the file, from the next gopen on: other blocks,
// other contexts of a block, and arrays.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>
#include <test/support/steps.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;
constexpr std::uint64_t size = 4 * page;
constexpr std::byte old_byte{'o'}, new_byte{'n'};

/// What gives the file its new version.
enum class change : std::uint8_t {
  host_write,  ///< fs.write
  last_close,  ///< the last gclose of an O_GWRONCE descriptor
  foreign,     ///< the host's write, which the gopen finds
};

struct scene {
  char const* path;
  char const* another;     ///< path of another file
  std::byte const* bytes;  ///< for the file, if block 1 is to write them
  int fd;
  bool writes;  ///< block 1 writes through O_GWRONCE
};

struct steps {
  std::uint32_t knows, go, wrote, knows_again, opened, read;
};

/// Bytes of block 0, before and after: by a gread, by a gread of another context, by an array on
/// its next page, by an array after release(). Between them those of a file that is written through
/// O_GWRONCE. Then what block 1 reads.
constexpr unsigned ways = 4;
struct readings {
  std::byte before[ways], between[ways], after[ways], opener;
  std::uint32_t failures;
};

__device__ void fail_unless(readings& out, bool right) {
  if (threadIdx.x == 0 && !right)
    atomic_ref<std::uint32_t>(out.failures).fetch_add(1, memory_order_relaxed);
}

template <class Context>
__device__ void read_one(Context& io, int fd, std::byte* to, readings& out) {
  fail_unless(out, gread(io, fd, to, 1, 0) == 1);
}

/// The reader's part of the kernel: it knows the file before the change.
template <class Block>
__device__ void know_and_read(fs_ref const& fs, Block const& block, scene const& s, steps& at,
                              readings& out) {
  io_context io(fs, block), second(fs, block);
  array<std::byte const> elements(io, s.fd), released(io, s.fd);
  read_one(io, s.fd, &out.before[0], out);
  read_one(second, s.fd, &out.before[1], out);
  std::byte next = elements[page], again = released[0];
  std::byte const last = elements[0];
  if (threadIdx.x == 0) out.before[2] = next, out.before[3] = again;
  fail_unless(out, last == old_byte);
  __syncthreads();
  tell(at.knows);
  if (s.writes) {  // the gwrite through O_GWRONCE is no new version yet
    await_told(at.wrote);
    read_one(io, s.fd, &out.between[0], out);
    read_one(second, s.fd, &out.between[1], out);
    again = released[0];
    next = elements[0];
    if (threadIdx.x == 0) out.between[2] = next, out.between[3] = again;
    __syncthreads();
    tell(at.knows_again);
  }
  await_told(at.opened);
  read_one(second, s.fd, &out.after[1], out);
  next = elements[page];
  released.release();
  again = released[0];
  read_one(io, s.fd, &out.after[0], out);
  if (threadIdx.x == 0) out.after[2] = next, out.after[3] = again;
  fail_unless(out, elements.error() == 0 && released.error() == 0);
  __syncthreads();
  tell(at.read);
}

/// Block 0 knows the file. When that has changed, block 1 opens it, another file first. Then block
/// 0 reads.
__global__ void reach(fs_ref fs, scene s, steps* at, readings* out) {
  auto const block = cg::this_thread_block();
  if (blockIdx.x == 0) {
    know_and_read(fs, block, s, *at, *out);
    return;
  }
  await_told(at->go);
  io_context io(fs, block);
  if (s.writes) {
    int const once = gopen(io, s.path, O_GWRONCE);
    fail_unless(*out, gwrite(io, once, s.bytes, size, 0) == size);
    tell(at->wrote);
    await_told(at->knows_again);
    fail_unless(*out, gclose(io, once) == 0);
  }
  int const another = gopen(io, s.another, O_RDONLY);
  int const fd = gopen(io, s.path, O_RDONLY);
  fail_unless(*out, fd == s.fd && another > 0);
  tell(at->opened);
  await_told(at->read);  // this block must not be the one that tells the other
  read_one(io, fd, &out->opener, *out);
  fail_unless(*out, gclose(io, fd) == 0 && gclose(io, another) == 0);
}

/// Changes the file while the kernel runs, and returns what its blocks have read.
readings run(change what, bool written) {
  scratch_folder const folder;
  auto const path = folder / "file";
  write_bytes(path, std::vector<std::byte>(size, old_byte));
  auto const another = make_file(folder, "another", page);
  let_stamps_age(path);
  filesystem fs(small_config(page, 32));
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  int const writer = fs.open(path, written ? O_RDWR : O_WRONLY | O_GWRONCE);
  REQUIRE(writer > 0);
  if (what != change::host_write && (what == change::foreign || !written))
    REQUIRE(fs.close(writer) == 0);
  std::vector<std::byte> const bytes(size, new_byte);
  auto const on_device = filled(bytes);
  device_paths const path_text({path}), another_text({another});
  pinned_buffer<steps> at(1);
  at.fill_zero();
  auto out = zeroed<readings>(1);
  launch(reach, 2, 64, fs.ref(),
         scene{path_text.text(), another_text.text(), on_device.data(), fd,
               what == change::last_close},
         at.data(), out.data());
  await_kernel(at[0].knows, "block 0 has read the file");
  if (what == change::host_write) CHECK(fs.write(writer, bytes.data(), size, 0) == size);
  if (what == change::foreign) write_bytes(path, bytes);
  tell_kernel(at[0].go);
  auto const read = result_in(out)[0];
  CHECK(inspect(fs.ref()).problems == "");
  return read;
}

}  // namespace

TEST_CASE("a new version reaches all blocks, contexts and arrays at the next gopen of the file") {
  for (auto const what : {change::host_write, change::last_close, change::foreign}) {
    for (bool const written : {false, true}) {
      CAPTURE(int(what));
      CAPTURE(written);
      auto const read = run(what, written);
      CHECK(read.failures == 0);
      CHECK(read.opener == new_byte);
      for (unsigned way = 0; way < ways; ++way) {
        CAPTURE(way);
        CHECK(read.before[way] == old_byte);
        // The page may have made room, and been read again behind write-back.
        if (what == change::last_close)
          CHECK((read.between[way] == old_byte || read.between[way] == new_byte));
        CHECK(read.after[way] == new_byte);
      }
    }
  }
}
