// Runs `gpufs bench write`. Runs of the kernel and of the host threads alternate, so that both find
// the machine in the same state.
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/bench/write.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/temporary_folder.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

using steady = std::chrono::steady_clock;
constexpr unsigned host_writers = 8;
constexpr std::uint64_t large_request = 1 << 20;

double since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}

/// A name that nobody else uses. The file goes at the end; a signal that ends the program leaves
/// it.
class new_name {
 public:
  explicit new_name(std::string const& folder)
      : folder_(folder, "--dir", "gpufs-bench-write"), path_(folder_.path() + "/file") {}
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  temporary_folder folder_;
  std::string path_;
};

write_plan plan_of(bench_options const& o) {
  write_plan p;
  p.range_bytes = size_option("--req", o.request, 8, 1 << 30);
  if (p.range_bytes % 8 != 0)
    throw usage_error(fmt::format("--req={}: must be a multiple of 8 for bench write", o.request));
  p.ranges =
      std::max<std::uint64_t>(size_option("--size", o.size, 1, 1ull << 48) / p.range_bytes, 1);
  p.seed = o.seed;
  if (o.random_order) {
    p.factor = generate_below(o.seed, 0, p.ranges) | 1;
    while (std::gcd(p.factor, p.ranges) != 1) p.factor += 2;
  }
  return p;
}

/// The bytes that host threads write from: a source as large as the file, but at most `most`.
/// Threads that write one chunk over and over would copy it from their CPU caches.
pinned_buffer<std::byte> host_data(write_plan const& plan) {
  constexpr std::uint64_t most = 2ull << 30;
  pinned_buffer<std::byte> memory = [&] {
    try {
      return pinned_buffer<std::byte>(std::min(plan.bytes(), most));
    } catch (device_error const& e) {
      throw device_error(
          fmt::format("no pinned memory for what host threads write ({}): {}; lower --size",
                      format_size(std::min(plan.bytes(), most)), e.what()));
    }
  }();
  std::uint64_t const share = (memory.size() + host_writers - 1) / host_writers;
  run_on_threads(host_writers, [&](unsigned thread) {
    auto const begin = std::min(thread * share, memory.size());
    std::fill(memory.begin() + begin, memory.begin() + std::min(begin + share, memory.size()),
              std::byte{0x5a});
  });
  return memory;
}

/// Host threads write a new file from pinned memory in chunks of `request`, then call fdatasync.
double write_by_host(std::string const& path, write_plan const& plan,
                     pinned_buffer<std::byte> const& memory, std::uint64_t request) {
  ::unlink(path.c_str());
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  std::uint64_t const in_memory = memory.size() / request;  // ranges
  request_order const requests(plan, request);
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failure{0};
  auto const start = steady::now();
  run_on_threads(host_writers, [&](unsigned) {
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) <
                          requests.order.ranges;) {  // a counter: orders nothing
      auto const range = requests.order.range(i), at = range * request;
      std::byte const* const from = memory.data() + range % in_memory * request;
      std::uint64_t const bytes = requests.bytes_of(range);
      for (std::uint64_t done = 0; done < bytes;) {
        auto const n = ::pwrite(fd, from + done, bytes - done, static_cast<off_t>(at + done));
        if (n <= 0) {
          failure = n == 0 ? EIO : errno;
          return;
        }
        done += static_cast<std::uint64_t>(n);
      }
    }
  });
  if (failure == 0 && ::fdatasync(fd) != 0) failure = errno;
  double const seconds = since(start);
  ::close(fd);
  if (failure != 0) throw std::system_error(failure, std::generic_category(), path);
  return seconds;
}

void verify(std::string const& path, write_plan const& plan, write_result& r) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  std::atomic<std::uint64_t> next{0}, wrong{~0ull};
  run_on_threads(io_threads(), [&](unsigned) {
    std::vector<std::uint64_t> words(plan.range_bytes / 8);
    for (std::uint64_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < plan.ranges;) {
      auto const n =
          ::pread(fd, words.data(), plan.range_bytes, static_cast<off_t>(p * plan.range_bytes));
      bool right = n == static_cast<ssize_t>(plan.range_bytes) && words[0] == p;
      for (std::uint64_t k = 1; right && k < words.size(); ++k)
        right = words[k] == generate(plan.seed, k);
      if (!right) wrong = p;
    }
  });
  off_t const size = ::lseek(fd, 0, SEEK_END);
  ::close(fd);
  if (wrong != ~0ull)
    r.mismatch = fmt::format("{} bytes at {} are not what was written", plan.range_bytes,
                             wrong * plan.range_bytes);
  if (size != static_cast<off_t>(plan.bytes()))
    r.mismatch = fmt::format("the file has {} bytes, not {}", size, plan.bytes());
}

}  // namespace

write_result run_write_bench(bench_options const& o, config const& settings) {
  write_result r;
  r.plan = plan_of(o);
  require_free_space(o.folder, "--dir", r.plan.bytes());
  new_name const name(o.folder);
  auto const runs = static_cast<std::uint64_t>(o.runs);
  progress shown("", 2 * runs + 1, !o.quiet);
  std::vector<statistics> counters;
  pinned_buffer<std::byte> const data =
      o.no_limits ? pinned_buffer<std::byte>() : host_data(r.plan);
  file_writer writer(r.plan, {static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads)});
  for (std::uint64_t run = 0; run < runs; ++run) {
    if (!o.no_limits) {
      shown.say(fmt::format("host threads, run {} of {}", run + 1, runs));
      double best = 1e300;
      for (std::uint64_t const request : {r.plan.range_bytes, large_request}) {
        if (request > r.plan.bytes()) continue;
        double const seconds = write_by_host(name.path(), r.plan, data, request);
        if (seconds < best) {
          best = seconds;
          r.host_request = request;
        }
      }
      r.host_seconds.push_back(best);
    }
    shown.advance(1);
    shown.say(fmt::format("run {} of {}", run + 1, runs));
    ::unlink(name.path().c_str());
    filesystem fs(settings);
    int const fd = fs.open(name.path(), O_RDWR | O_CREAT | O_EXCL | (o.once ? O_GWRONCE : 0), 0600);
    if (fd < 0) throw std::runtime_error(fmt::format("{}: {}", name.path(), error_text(fd)));
    statistics const before = fs.stats();
    auto const start = steady::now();
    std::int64_t const failure = writer.write(fs.ref(), fd);
    int const synced = failure == 0 ? fs.sync(fd) : 0;
    r.seconds.push_back(since(start));
    if (failure != 0)
      throw std::runtime_error(fmt::format("{}: gwrite: {}", name.path(), error_text(failure)));
    if (synced != 0)
      throw std::runtime_error(fmt::format("{}: fs.sync: {}", name.path(), error_text(synced)));
    counters.push_back(fs.stats() - before);
    if (run + 1 == runs && !o.no_verify) {
      shown.say("checking what was written");
      verify(name.path(), r.plan, r);
      int const reader = fs.open(name.path(), O_RDONLY);
      std::uint64_t const wrong = reader < 0 ? r.plan.ranges : writer.read_back(fs.ref(), reader);
      if (wrong != 0 && r.mismatch.empty())
        r.mismatch = fmt::format("{} of {} ranges were read back wrong", wrong, r.plan.ranges);
      r.verified = r.mismatch.empty();
      if (reader >= 0) fs.close(reader);
    }
    r.backend = fs.backend_name();
    r.notes = fs.notes();
    if (int const closed = fs.close(fd); closed != 0)
      throw std::runtime_error(fmt::format("{}: close: {}", name.path(), error_text(closed)));
    shown.advance(1);
  }
  r.median = median_index(r.seconds);
  r.counters = counters[r.median];
  return r;
}

void print(bench_options const& o, config const& settings, write_result const& r) {
  double const bytes = static_cast<double>(r.plan.bytes());
  double const rate = bytes / r.seconds[r.median] / 1e9;
  std::optional<double> host;
  if (!r.host_seconds.empty()) host = bytes / median(r.host_seconds) / 1e9;
  char const* const order = o.random_order ? "random" : "sequential";
  if (o.json) {
    json_line line;
    line.text("name", "write")
        .text("order", order)
        .boolean("once", o.once)
        .integer("bytes", r.plan.bytes());
    line.integer("request", r.plan.range_bytes)
        .integer("page_size", settings.page_size)
        .integer("cache_size", settings.cache_size);
    line.integer("blocks", static_cast<std::uint64_t>(o.blocks))
        .integer("threads", static_cast<std::uint64_t>(o.threads));
    line.numbers("seconds", r.seconds)
        .number("GBps", rate)
        .number("host_GBps", host)
        .integer("host_request", r.host_request);
    line.number("of_host", host ? std::optional(rate / *host) : std::nullopt);
    line.boolean("verified", r.verified)
        .text("mismatch", r.mismatch)
        .text("backend", r.backend)
        .members(to_json_fields(r.counters));
    fmt::print("{}\n", line.str());
    return;
  }
  fmt::print("write, {}{}: {} in ranges of {}, {} blocks of {} threads, pages of {}\n", order,
             o.once ? ", O_GWRONCE" : "", format_size(r.plan.bytes()),
             format_size(r.plan.range_bytes), o.blocks, o.threads, format_size(settings.page_size));
  fmt::print("  {:.3f} GB/s, sync included (median of {})\n", rate, r.seconds.size());
  if (host) {
    fmt::print(
        "  {:.3f} GB/s by {} host threads from pinned memory, pwrite of {}, fdatasync included: "
        "ratio {:.2f}\n",
        *host, host_writers, format_size(r.host_request), rate / *host);
  }
  if (!o.no_verify)
    fmt::print("  {}\n", r.verified ? "verified: in the file and read back by a kernel"
                                    : "WRONG: " + r.mismatch);
  fmt::print(
      "  each byte was written {:.2f} times to the host's file; {} bytes were read from it\n",
      static_cast<double>(r.counters.host_bytes_written) / bytes, r.counters.host_bytes);
  fmt::print("{}", to_text(r.counters));
  for (auto const& note : r.notes) fmt::print("  note: {}\n", note);
}

}  // namespace gpufs::apps
