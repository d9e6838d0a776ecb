#include <apps/bench/block_input.hpp>
#include <apps/bench/original_kernels.hpp>
#include <apps/bench/pass.hpp>
#include <apps/common/checksum.hpp>
#include <apps/common/program.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <stdexcept>

#include <fcntl.h>

namespace gpufs::apps {

opened::opened(filesystem& fs, host_file const& file) : fs_(fs), fd_(open_for_kernels(fs, file)) {
  if (fd_ < 0) throw std::runtime_error(fmt::format("{}: {}", file.kernel_path(), error_text(fd_)));
}

opened::~opened() { close_for_kernels(fs_, fd_); }

void require_success(bench_failure const& f) {
  if (!f.failed) return;
  std::string const got = f.result < 0 ? error_text(f.result) : fmt::format("{} bytes", f.result);
  throw std::runtime_error(fmt::format("read of {} bytes at {}: {}", f.bytes, f.offset, got));
}

comparison compare_with_pread(host_file const& file, access_plan const& plan,
                              std::vector<std::uint64_t> const& got) {
  comparison c;
  std::atomic<std::uint64_t> next{0}, checked{0}, bytes{0};  // counters: order nothing
  std::mutex mutex;
  run_on_threads(io_threads(), [&](unsigned) {
    std::vector<std::byte> buffer(plan.request);
    for (std::uint64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < plan.blocks;) {
      for (std::uint64_t i = 0, n = plan.requests_of(b); i < n; ++i) {
        access const a = plan.at(b, i);
        file.read(buffer.data(), a.bytes, a.offset);
        checked.fetch_add(1, std::memory_order_relaxed);
        bytes.fetch_add(a.bytes, std::memory_order_relaxed);
        if (checksum({buffer.data(), a.bytes}) == got[a.number]) continue;
        std::lock_guard const lock(mutex);
        if (c.mismatch.empty())
          c.mismatch =
              fmt::format("{} bytes at {} differ from what pread gives", a.bytes, a.offset);
      }
    }
  });
  c.checked = checked;
  if (bytes != plan.payload())
    c.mismatch = fmt::format("{} bytes were read, not {}", bytes.load(), plan.payload());
  return c;
}

namespace {

void require_equal(host_file const& file, access_plan const& plan,
                   std::vector<std::uint64_t> const& got, char const* who) {
  comparison const c = compare_with_pread(file, plan, got);
  if (!c.mismatch.empty()) throw std::runtime_error(fmt::format("{}: {}", who, c.mismatch));
}

}  // namespace

pass_result read_once(host_file const& file, config const& settings, access_plan const& plan,
                      bench_shape shape, bool check, bool windows_first) {
  file_reader reader(plan, shape);
  filesystem fs(settings);
  opened const f(fs, file);
  if (windows_first) register_windows(fs, f.fd(), file.size());
  statistics const before = fs.stats();
  pass_result r;
  std::uint64_t const commands = commands_of_kernels(fs, file);
  r.seconds = reader.run(fs.ref(), f.fd(), 1);
  r.bytes = plan.payload();
  r.counters = counters_of_run(before, fs.stats());
  r.device_commands = commands_of_kernels(fs, file) - commands;
  require_success(reader.take_failure());
  if (check) {
    auto const sums = reader.checksums(fs.ref(), f.fd());
    require_success(reader.take_failure());
    require_equal(file, plan, sums, "gpufs");
  }
  return r;
}

original::options original_options(config const& settings) {
  original::options o;
  o.page_size = settings.page_size;
  o.cache_size = settings.cache_size;
  o.timeout_ms = settings.rpc_timeout_ms;
  return o;
}

original_result read_once_original(host_file const& file, original::options const& settings,
                                   access_plan const& plan, bench_shape shape, bool check) {
  original_reader reader(plan, shape);
  original::file_system fs(file.path(), settings);
  original_result r;
  fs.start_counting();
  r.seconds = settings.transfers ? reader.run(fs.ref()) : reader.run_requests(fs.ref());
  r.counters = fs.stats();
  if (std::string const why = fs.failure(); !why.empty())
    throw std::runtime_error("baseline gpufs: " + why);
  require_success(reader.take_failure());
  if (check) {
    auto const sums = reader.checksums(fs.ref());
    require_success(reader.take_failure());
    require_equal(file, plan, sums, "baseline gpufs");
  }
  return r;
}

}  // namespace gpufs::apps
