#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/numbered_reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <cerrno>
#include <vector>

namespace gpufs::test {

namespace {

namespace cg = cooperative_groups;

constexpr std::uint64_t page = numbered_page;

// Reads random pages, each as often as it takes to get an answer in time, until `enough` is set and
// at least `rounds` were read. Page p of the file consists of bytes p.
__global__ void read_until_told(fs_ref fs, int fd, std::uint32_t pages, std::uint32_t rounds,
                                std::uint64_t seed, std::uint32_t* begun, std::uint32_t* enough,
                                std::byte* out, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = out + blockIdx.x * 3 * page;
  std::uint64_t bad = 0;
  for (std::uint32_t i = 0;; ++i) {
    std::uint32_t const first = static_cast<std::uint32_t>(
        base::mix64(seed + (std::uint64_t(blockIdx.x) << 32 | i)) % (pages - 2));
    ssize_t n = 0;
    do n = gread(io, fd, mine, 3 * page, std::int64_t(first) * page);
    while (n == -ETIMEDOUT || n == -ENOMEM);  // the host, or other blocks, may be slow
    if (n <= 0 || n % page != 0) ++bad;
    for (ssize_t b = threadIdx.x; b < n; b += blockDim.x)
      bad += mine[b] != static_cast<std::byte>(first + b / page) ? 1 : 0;
    bool done = false;
    if (threadIdx.x == 0) {
      atomic_ref<std::uint32_t, scope::system>(begun[blockIdx.x]).store(1, memory_order_release);
      done = i >= rounds &&
             atomic_ref<std::uint32_t, scope::system>(*enough).load(memory_order_acquire) != 0;
    }
    if (__syncthreads_or(done) != 0) break;
  }
  atomic_ref<std::uint64_t>(*wrong).fetch_add(bad, memory_order_relaxed);
}

}  // namespace

std::string make_numbered(scratch_folder const& folder, unsigned pages) {
  std::vector<std::byte> bytes(pages * page);
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = std::byte(at / page);
  auto path = folder / "numbered";
  write_bytes(path, bytes);
  return path;
}

config impatient(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.rpc_timeout_ms = impatient_ms;
  c.staging_size = 64 << 10;  // 16 page channels
  return c;
}

reading_kernel::reading_kernel(filesystem& fs, int fd, std::uint32_t pages, unsigned blocks,
                               std::uint32_t rounds)
    : flags_(blocks + 1),
      out_(blocks * 3 * page),
      wrong_(zeroed<std::uint64_t>(1)),
      blocks_(blocks) {
  flags_.fill_zero();
  launch(read_until_told, blocks, 64, fs.ref(), fd, pages, rounds, seed(), flags_.data(),
         &flags_[blocks], out_.data(), wrong_.data());
}

void reading_kernel::wait_until_begun() {
  wait_until(
      [&] {
        unsigned begun = 0;
        // Pairs with the release in the kernel.
        for (unsigned b = 0; b < blocks_; ++b) {
          begun += atomic_ref<std::uint32_t, scope::system>(flags_[b]).load(memory_order_acquire);
        }
        return begun == blocks_;
      },
      "every block has read once");
}

std::uint64_t reading_kernel::finish() {
  atomic_ref<std::uint32_t, scope::system>(flags_[blocks_]).store(1, memory_order_release);
  this_thread_stream().synchronize();
  return contents(wrong_)[0];
}

}  // namespace gpufs::test
