#include <gpufs/gpufs.hpp>

#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/records.hpp>
#include <test/support/settings.hpp>

#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace gpufs::test {

namespace {

namespace cg = cooperative_groups;

constexpr std::uint64_t page = 4096;
constexpr unsigned blocks = 4;
constexpr std::uint64_t record = 5000;
constexpr std::uint64_t records = 25;  // of each block: they fit into the write buffers

// No two records share a page: one that the host holds stays held until drain(), and whoever writes
// to it waits so long.
__host__ __device__ constexpr std::uint64_t place_of(std::uint64_t block, std::uint64_t i) {
  return (i * blocks + block) * 2 * page + 17;
}
__host__ __device__ constexpr std::byte byte_of(std::uint64_t block, std::uint64_t i) {
  return static_cast<std::byte>(1 + i * blocks + block);
}

/// done[b]: how many records gwrite has returned for to block b.
__global__ void write_records(fs_ref fs, int fd, std::byte* scratch, std::uint64_t* done) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = scratch + blockIdx.x * record;
  for (std::uint64_t i = 0; i < records; ++i) {
    for (std::uint64_t at = threadIdx.x; at < record; at += blockDim.x)
      mine[at] = byte_of(blockIdx.x, i);
    ssize_t const n =
        gwrite(io, fd, mine, record, static_cast<std::int64_t>(place_of(blockIdx.x, i)));
    if (n != static_cast<ssize_t>(record)) break;
    // Pairs with the host's acquire.
    if (threadIdx.x == 0)
      atomic_ref<std::uint64_t, scope::system>(done[blockIdx.x]).store(i + 1, memory_order_release);
  }
  // A kernel that never ends: this word stays 0.
  unsigned pause = 0;
  while (atomic_ref<std::uint64_t, scope::system>(done[blocks]).load(memory_order_relaxed) == 0)
    backoff(pause);
}

std::shared_ptr<scripted_faults> holding(std::shared_ptr<testing::gate> const& gate) {
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [gate](std::uint64_t, std::uint64_t) {
    return testing::fault_action::hold(gate);
  };
  return faults;
}

}  // namespace

held_records::held_records(std::string const& path)
    : gate_(std::make_shared<testing::gate>()),
      path_(path),
      fs_(small_config(page, 4 * blocks * records), holding(gate_)),
      done_(blocks + 1),
      scratch_(blocks * record) {
  done_.fill_zero();
  int const fd = fs_.open(path, O_WRONLY | O_CREAT);
  if (fd < 0) throw std::runtime_error(path + ": cannot be opened");
  launch(write_records, blocks, 64, fs_.ref(), fd, scratch_.data(), done_.data());
}

void held_records::wait_until_dirty() {
  wait_until(
      [&] {
        for (unsigned b = 0; b < blocks; ++b)
          if (atomic_ref<std::uint64_t, scope::system>(done_[b]).load(memory_order_acquire) < 2)
            return false;
        return true;
      },
      "two records of each block");
  set_size(path_ + ".dirty", 0);
}

bool held_records::dirty(std::string const& path) {
  return std::filesystem::exists(path + ".dirty");
}

void held_records::drain() {
  std::vector<std::byte> noted(blocks);
  for (unsigned b = 0; b < blocks; ++b)
    noted[b] =
        std::byte(atomic_ref<std::uint64_t, scope::system>(done_[b]).load(memory_order_acquire));
  gate_->release();
  static_cast<void>(fs_.sync());
  write_bytes(path_ + ".noted", noted);  // last
}

std::string held_records::problems(std::string const& path) {
  auto const noted = pread_bytes(path + ".noted", 0, ~0ull);
  if (noted.size() != blocks) return "nothing was noted";
  auto const file = pread_bytes(path, 0, ~0ull);
  for (unsigned b = 0; b < blocks; ++b) {
    if (noted[b] < std::byte{2}) return "block " + std::to_string(b) + " has written nothing";
    for (std::uint64_t i = 0; i < std::to_integer<std::uint64_t>(noted[b]); ++i) {
      std::uint64_t const from = place_of(b, i);
      for (std::uint64_t at = from; at < from + record; ++at)
        if (at >= file.size() || file[at] != byte_of(b, i))
          return "record " + std::to_string(i) + " of block " + std::to_string(b) + ": byte " +
                 std::to_string(at) + " is not in the file";
    }
  }
  return "";
}

}  // namespace gpufs::test
