// A thread captures a CUDA graph in global mode, which is the default: CUDA then refuses many calls
// of all threads, or they invalidate the capture. Threads of the library call CUDA meanwhile. The
// capture stays valid, and the library does what it was asked to.
#include <gpufs/gpufs.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20, file_size = 16 * mebi;

/// A capture of a kernel that adds 1 to a word. end() replays what was captured.
class open_capture {
 public:
  open_capture() : word_(1) {
    word_.fill_zero();
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal) == cudaSuccess);
    is_open_ = true;
  }
  ~open_capture() {
    cudaGraph_t graph = nullptr;
    if (is_open_) cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaStreamDestroy(stream_);
    cudaGetLastError();
  }
  open_capture(open_capture const&) = delete;
  open_capture& operator=(open_capture const&) = delete;

  void add() {
    add_to_all<<<1, 32, 0, stream_>>>(word_.data(), 1, 1);
    CHECK(cudaGetLastError() == cudaSuccess);
    ++added_;
  }

  void end() {
    cudaGraph_t graph = nullptr;
    is_open_ = false;
    REQUIRE(cudaStreamEndCapture(stream_, &graph) == cudaSuccess);
    REQUIRE(graph != nullptr);
    cudaGraphExec_t work = nullptr;
    REQUIRE(cudaGraphInstantiate(&work, graph, 0) == cudaSuccess);
    CHECK(cudaGraphLaunch(work, stream_) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream_) == cudaSuccess);
    std::uint32_t sum = 0;
    word_.copy_to_host(&sum, 1);
    CHECK(sum == added_);
    cudaGraphExecDestroy(work);
    cudaGraphDestroy(graph);
  }

 private:
  buffer<std::uint32_t> word_;
  cudaStream_t stream_ = nullptr;
  bool is_open_ = false;
  std::uint32_t added_ = 0;
};

/// Word 0: the host sets it when the kernel may begin. Word 1: bytes that differ. Word 2: blocks
/// that have ended.
__global__ void read_when_told(fs_ref fs, int fd, std::byte const* expected, std::uint64_t size,
                               std::uint64_t* words) {
  io_context io(fs, cooperative_groups::this_thread_block());
  __shared__ unsigned char got[4096];
  if (threadIdx.x == 0) {
    atomic_ref<std::uint64_t, scope::system> const go(words[0]);
    while (go.load(memory_order_acquire) == 0) {
    }
  }
  __syncthreads();
  for (std::uint64_t at = blockIdx.x * sizeof got; at < size; at += gridDim.x * sizeof got) {
    bool const is_whole =
        gread(io, fd, got, sizeof got, static_cast<std::int64_t>(at)) == sizeof got;
    std::uint64_t wrong = 0;
    for (unsigned i = threadIdx.x; i < sizeof got; i += blockDim.x)
      wrong += !is_whole || std::byte{got[i]} != expected[at + i] ? 1 : 0;
    if (wrong != 0)
      atomic_ref<std::uint64_t, scope::system>(words[1]).fetch_add(wrong, memory_order_relaxed);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomic_ref<std::uint64_t, scope::system>(words[2]).fetch_add(1, memory_order_release);
}

/// What the host sees of read_when_told() without a call of CUDA.
class told_words {
 public:
  told_words() : words_(3) { words_.fill_zero(); }
  [[nodiscard]] std::uint64_t* data() const { return words_.data(); }
  void tell() const { at(0).store(1, std::memory_order_release); }
  [[nodiscard]] std::uint64_t wrong() const { return at(1).load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t ended() const { return at(2).load(std::memory_order_acquire); }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> at(unsigned i) const {
    return std::atomic_ref<std::uint64_t>(words_[i]);
  }
  pinned_buffer<std::uint64_t> words_;
};

}  // namespace

TEST_CASE("captures: a kernel reads files meanwhile, by each way of their bytes") {
  constexpr unsigned blocks = 8;
  for (auto const path : {io_path::automatic, io_path::pull, io_path::dma, io_path::registered}) {
    CAPTURE(int(path));
    scratch_folder const folder;
    auto const file = make_file(folder, "a", file_size);
    let_stamps_age(file);
    auto const content = pread_bytes(file, 0, file_size);
    buffer<std::byte> expected(file_size);
    expected.copy_from_host(content.data(), file_size);
    auto c = small_config(4096, 256);
    c.path = path;
    c.file_window_size = 1 << 20;
    c.registered_memory = 64 << 20;
    filesystem fs(c);
    int const fd = fs.open(file, O_RDONLY);
    REQUIRE(fd > 0);
    told_words const words;
    launch(read_when_told, blocks, 128, fs.ref(), fd, expected.data(), file_size, words.data());
    {
      open_capture capture;
      capture.add();
      words.tell();
      wait_until([&] { return words.ended() == blocks; }, "the kernel's end");
      capture.add();
      capture.end();
    }
    synchronize();
    CHECK(words.wrong() == 0);
    auto const stats = fs.stats();
    CHECK((path != io_path::registered || stats.windows_registered > 0));
    for (auto const& note : fs.notes()) CAPTURE(note);
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE("captures: filesystems are made and used by the host meanwhile") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", mebi);
  open_capture capture;
  capture.add();
  {
    filesystem fs(small_config(4096, 64));
    int const fd = fs.open(file, O_RDWR);
    REQUIRE(fd > 0);
    std::vector<std::byte> const bytes(10'000, std::byte{7});
    CHECK(fs.write(fd, bytes.data(), bytes.size(), 5000) == std::int64_t(bytes.size()));
    CHECK(fs.sync(fd) == 0);
    CHECK(pread_bytes(file, 5000, bytes.size()) == bytes);
    static_cast<void>(fs.stats());
    CHECK(fs.close(fd) == 0);
  }
  capture.add();
  capture.end();
}

TEST_CASE("captures: the CPU touches shared objects meanwhile, and reads into them") {
  constexpr std::uint64_t words = 8 * mebi / 4;
  scratch_folder const folder;
  auto const file = make_file(folder, "a", file_size);
  shared_memory memory;
  auto const m = memory.allocate(words * 4);
  auto const mapped = memory.map(file, {.access = access::read_write});
  auto* const w = m.as<std::uint32_t>();
  launch(store_to_all, 32, 256, w, words, 5u);
  memory.synchronize();
  {
    open_capture capture;
    capture.add();
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < words; ++i) wrong += w[i] != 5 ? 1 : 0;
    CHECK(wrong == 0);
    for (std::uint64_t i = 0; i < words; i += 1000) w[i] = 6;
    auto const content = pread_bytes(file, 0, file_size);
    CHECK(std::memcmp(mapped.data(), content.data(), content.size()) == 0);
    auto const more = memory.allocate(4 * mebi);
    CHECK(memory.copy(more.data(), w, 4 * mebi) == 0);
    CHECK(more.as<std::uint32_t>()[1000] == 6);
    CHECK(more.as<std::uint32_t>()[1001] == 5);
    capture.add();
    capture.end();
  }
  launch(add_to_all, 32, 256, w, words, 1u);
  memory.synchronize();
  CHECK(w[1000] == 7);
  CHECK(w[1001] == 6);
}
