// Runs a benchmark: the file, the timed runs, the check against pread, the limits.
#include <apps/gpufs/bench.hpp>

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/common/checksum.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/gpufs/bench_kernels.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>

namespace gpufs::apps {

namespace {

constexpr double least_hit_seconds = 0.08;

/// An open file of a filesystem.
class opened {
 public:
  opened(filesystem& fs, std::string const& path) : fs_(fs), fd_(fs.open(path, O_RDONLY)) {
    if (fd_ < 0) throw std::runtime_error(fmt::format("{}: {}", path, error_text(fd_)));
  }
  ~opened() { fs_.close(fd_); }
  opened(opened const&) = delete;
  opened& operator=(opened const&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  filesystem& fs_;
  int fd_;
};

host_file open_named(std::string const& path) {
  try {
    return host_file(path);
  } catch (std::system_error const& e) {
    throw usage_error(fmt::format("--file={}: {}", path, e.code().message()));
  }
}

void require_success(file_reader& reader) {
  bench_failure const f = reader.take_failure();
  if (!f.failed) return;
  std::string const got = f.result < 0 ? error_text(f.result) : fmt::format("{} bytes", f.result);
  throw std::runtime_error(fmt::format("gread of {} bytes at {}: {}", f.bytes, f.offset, got));
}

bench_shape shape_of(bench_options const& o) { return {static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads)}; }

/// Compares what the device got with what pread gives.
void verify(host_file const& file, std::vector<std::uint64_t> const& got, bench_result& r) {
  access_plan const& plan = r.plan;
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
        if (r.mismatch.empty()) r.mismatch = fmt::format("{} bytes at {} differ from what pread gives", a.bytes, a.offset);
      }
    }
  });
  r.checked = checked;
  if (bytes != plan.payload()) r.mismatch = fmt::format("{} bytes were read, not {}", bytes.load(), plan.payload());
  r.verified = r.mismatch.empty();
}

/// Passes over the plan that make a kernel of resident pages run long enough to be timed.
std::uint64_t passes(bench_options const& o, file_reader& reader, fs_ref const& fs, int fd) {
  if (o.repeat != bench_options::not_given) return static_cast<std::uint64_t>(o.repeat);
  double const once = std::max(reader.run(fs, fd, 1), 1e-6);
  return static_cast<std::uint64_t>(std::clamp(std::ceil(least_hit_seconds / once), 1.0, 1e6));
}

}  // namespace

bench_result run_bench(bench_options const& o, config const& settings) {
  std::optional<temp_file> made;
  bench_result r;
  std::vector<host_file> files;
  if (o.file.empty()) {
    made.emplace(o.folder, size_option("--size", o.size, 1, ~0ull), o.seed);
    files.emplace_back(made->path());
    r.file = "(temporary)";
  } else {
    files.push_back(open_named(o.file));
    r.file = o.file;
  }
  host_file const& file = files.front();
  r.file_bytes = file.size();
  if (file.size() == 0) throw usage_error(fmt::format("--file={}: must not be empty", o.file));
  r.plan = make_plan(o, file.size(), settings);

  auto const runs = static_cast<std::uint64_t>(o.runs);
  progress shown("", runs + 2, !o.quiet);
  std::vector<statistics> counters;
  {
    file_reader reader(r.plan, shape_of(o));
    if (!o.cold) file.load_into_page_cache(o.is("rand") ? file.size() : r.plan.bytes);
    for (std::uint64_t run = 0; run < runs; ++run) {
      shown.say(fmt::format("run {} of {}", run + 1, runs));
      if (o.cold) {
        file.drop_from_page_cache();
        if (auto const part = file.cached_part()) r.cached_before = std::max(r.cached_before.value_or(0), *part);
      }
      filesystem fs(settings);  // a fresh one: its cache holds nothing
      opened const f(fs, file.path());
      if (o.is("hit")) {
        reader.run(fs.ref(), f.fd(), 1);
        require_success(reader);
        if (run == 0) r.repeat = passes(o, reader, fs.ref(), f.fd());
      }
      statistics const before = fs.stats();
      r.seconds.push_back(reader.run(fs.ref(), f.fd(), r.repeat));
      counters.push_back(fs.stats() - before);
      require_success(reader);
      shown.advance(1);
      if (run + 1 == runs) {
        r.backend = fs.backend_name();
        r.notes = fs.notes();
        if (!o.no_verify) {
          shown.say("checking the bytes against pread");
          auto const got = reader.checksums(fs.ref(), f.fd());
          require_success(reader);
          verify(file, got, r);
        }
      }
    }
  }
  r.median = median_index(r.seconds);
  r.counters = counters[r.median];
  shown.advance(1);
  if (!o.no_limits) {
    yardstick_options y;
    y.cold = o.cold;
    y.thorough = o.thorough;
    if (o.cold) y.prepare = [&] { file.drop_from_page_cache(); };
    y.say = [&](char const* what) { shown.say(what); };
    r.measured = measure_yardsticks(files, r.plan.bytes, y);
    if (o.is("hit")) r.measured.copy_kernel = measure_copy_kernel_GBps(r.plan.bytes, least_hit_seconds);
  }
  return r;
}

rpc_result run_rpc_bench(bench_options const& o, config const& settings) {
  constexpr std::uint64_t rounds = 16;  // in one sample: the device's clock may be coarse
  std::uint64_t const samples =
      std::max<std::uint64_t>((o.repeat == bench_options::not_given ? 20000 : static_cast<std::uint64_t>(o.repeat)) / rounds, 1);
  filesystem fs(settings);
  auto const run = [&](unsigned blocks, std::uint64_t count) {
    rpc_times t = run_rpc(fs.ref(), {blocks, static_cast<unsigned>(o.threads)}, count, rounds);
    if (t.error != 0) throw std::runtime_error(fmt::format("a round trip to the daemon: {}", error_text(t.error)));
    return t;
  };
  rpc_result r;
  r.rounds = samples * rounds;
  run(1, std::min<std::uint64_t>(samples, 100));  // does not count: wakes the daemon
  statistics const before = fs.stats();
  std::vector<double> medians;
  for (std::int64_t i = 0; i < o.runs; ++i) {
    rpc_times const t = run(1, samples);
    medians.push_back(median(t.seconds_per_round));
    r.seconds += t.seconds;
  }
  r.counters = fs.stats() - before;
  r.round_trip_us = median(medians) * 1e6;
  std::uint64_t const fewer = std::max<std::uint64_t>(samples / 8, 1);
  rpc_times const all = run(static_cast<unsigned>(o.blocks), fewer);
  r.round_trip_all_us = median(all.seconds_per_round) * 1e6;
  r.rate = static_cast<double>(o.blocks) * static_cast<double>(fewer * rounds) / all.seconds;
  r.backend = fs.backend_name();
  r.notes = fs.notes();
  return r;
}

}  // namespace gpufs::apps
