#include <gpufs/device.hpp>

#include <apps/bench/cufile.hpp>
#include <apps/bench/managed_sum.hpp>
#include <apps/bench/peer_copies.hpp>
#include <apps/common/managed_memory.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/script.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <system_error>

#include <sys/mman.h>

namespace gpufs::apps {

namespace {

using steady = std::chrono::steady_clock;

constexpr unsigned peer_threads = 16;

void require_equal(std::byte const* got, std::byte const* right, std::uint64_t bytes,
                   std::uint64_t offset) {
  if (std::memcmp(got, right, bytes) != 0)
    throw std::runtime_error(
        fmt::format("wrong bytes in [{}, {}) of the file", offset, offset + bytes));
}

/// Compares all of it with the file's first bytes, in pieces.
void check_stream(peer_work const& w, buffer<std::byte> const& memory) {
  constexpr std::uint64_t piece = 16 << 20;
  if (!w.all.checking()) return;
  std::vector<std::byte> got(piece), right(piece);
  for (std::uint64_t at = 0; at < memory.size(); at += piece) {
    auto const bytes = std::min(piece, memory.size() - at);
    memory.copy_to_host(got.data(), bytes, at);
    w.all.file().read(right.data(), bytes, at);
    require_equal(got.data(), right.data(), bytes, at);
  }
}

void check_records(peer_work const& w, buffer<std::byte> const& memory) {
  if (!w.all.checking()) return;
  std::uint64_t const each = w.records.bytes;
  std::vector<std::byte> got(memory.size()), right(each);
  memory.copy_to_host(got.data(), got.size());
  for (std::size_t i = 0; i < w.records.numbers.size(); ++i) {
    std::uint64_t const offset = w.records.numbers[i] * each;
    w.all.file().read(right.data(), each, offset);
    require_equal(got.data() + i * each, right.data(), each, offset);
  }
}

/// A read-only mapping of the file's first bytes.
class file_mapping {
 public:
  file_mapping(host_file const& file, std::uint64_t bytes)
      : bytes_(bytes), at_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0)) {
    if (at_ == MAP_FAILED)
      throw std::system_error(errno, std::system_category(), "mmap of " + file.path());
  }
  ~file_mapping() { ::munmap(at_, bytes_); }
  file_mapping(file_mapping const&) = delete;
  file_mapping& operator=(file_mapping const&) = delete;
  [[nodiscard]] std::byte const* data() const { return static_cast<std::byte const*>(at_); }

 private:
  std::uint64_t bytes_;
  void* at_;
};

/// Calls work(i) for each i below `count`, by `peer_threads` threads: the seconds it took.
template <class Work>
double timed_on_threads(std::uint64_t count, Work const& work) {
  std::atomic<std::uint64_t> next{0};
  auto const start = steady::now();
  run_on_threads(peer_threads, [&](unsigned) {
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  });
  return seconds_since(start);
}

/// What KvikIO reads in `kind` ("stream" or "records"): GB/s.
double kvikio_GBps(peer_work const& w, std::string const& kind, std::uint64_t payload) {
  if (current_device().kind == "emulated") throw not_here("needs a GPU");
  auto const python = python_with("kvikio");
  if (python.empty()) throw not_here("no python3 has kvikio");
  auto const script = find_script("peers_kvikio.py");
  if (script.empty()) throw not_here("peers_kvikio.py is not beside the program");
  temp_file const numbers(temp_folder(), w.records.numbers.size() * sizeof(std::uint32_t), 0);
  temp_file const answer(temp_folder(), 0, 0);
  std::ofstream(numbers.path(), std::ios::binary)
      .write(reinterpret_cast<char const*>(w.records.numbers.data()),
             std::streamsize(w.records.numbers.size() * sizeof(std::uint32_t)));
  int const status = run_command(
      {python, script, w.all.file().path(), kind, std::to_string(w.all.bytes()),
       std::to_string(w.records.bytes), numbers.path(), w.all.checking() ? "check" : "no-check"},
      answer.path());
  double seconds = 0;
  if (status != 0 || !(std::ifstream(answer.path()) >> seconds))
    throw std::runtime_error(fmt::format("{} ended with status {}", script, status));
  return gigabytes_per_second(payload, seconds);
}

}  // namespace

double stream_mapped(peer_work const& w) {
  buffer<std::byte> memory(w.all.bytes());
  auto const start = steady::now();
  file_mapping const mapping(w.all.file(), w.all.bytes());
  memory.copy_from_host(mapping.data(), w.all.bytes());
  double const seconds = seconds_since(start);
  check_stream(w, memory);
  return gigabytes_per_second(w.all.bytes(), seconds);
}

double stream_managed(peer_work const& w) {
  if (current_device().kind == "emulated") throw not_here("needs a GPU");
  constexpr std::uint64_t piece = 4 << 20;
  std::uint64_t const bytes = w.all.bytes() / 8 * 8;
  managed_memory const memory(bytes);
  auto const start = steady::now();
  timed_on_threads((bytes + piece - 1) / piece, [&](std::uint64_t i) {
    w.all.file().read(memory.data() + i * piece, std::min(piece, bytes - i * piece), i * piece);
  });
  std::uint64_t const sum = sum_on_device(memory.data(), bytes);
  double const seconds = seconds_since(start);
  if (w.all.checking()) {
    buffer<std::byte> copy(bytes);
    copy.copy_from_host(memory.data(), bytes);
    check_stream(w, copy);
    if (sum != sum_on_device(copy.data(), bytes))
      throw std::runtime_error("a kernel read wrong bytes of unified memory");
  }
  return gigabytes_per_second(bytes, seconds);
}

double stream_cufile(peer_work const& w) {
  constexpr std::uint64_t piece = 16 << 20;
  cufile const file(w.all.file());
  buffer<std::byte> memory(w.all.bytes());
  double const seconds =
      timed_on_threads((w.all.bytes() + piece - 1) / piece, [&](std::uint64_t i) {
        file.read(memory.data(), std::min(piece, w.all.bytes() - i * piece), i * piece, i * piece);
      });
  check_stream(w, memory);
  return gigabytes_per_second(w.all.bytes(), seconds);
}

double records_cufile(peer_work const& w) {
  cufile const file(w.all.file());
  std::uint64_t const each = w.records.bytes;
  buffer<std::byte> memory(w.records.numbers.size() * each);
  double const seconds = timed_on_threads(w.records.numbers.size(), [&](std::uint64_t i) {
    file.read(memory.data(), each, w.records.numbers[i] * each, i * each);
  });
  check_records(w, memory);
  return gigabytes_per_second(memory.size(), seconds);
}

double records_pread(peer_work const& w) {
  constexpr std::uint64_t chunk = 1 << 20;
  std::vector<std::uint64_t> offsets;
  for (auto const number : w.records.numbers) offsets.push_back(number * w.records.bytes);
  return measure_records_GBps(w.all.file(), offsets, w.records.bytes, peer_threads, chunk,
                              [&](buffer<std::byte> const& memory) { check_records(w, memory); });
}

double stream_kvikio(peer_work const& w) { return kvikio_GBps(w, "stream", w.all.bytes()); }

double records_kvikio(peer_work const& w) {
  return kvikio_GBps(w, "records", w.records.numbers.size() * w.records.bytes);
}

}  // namespace gpufs::apps
