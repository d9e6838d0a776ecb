#include <gpufs/gpufs.hpp>

#include <apps/bench/array_kernels.hpp>
#include <apps/bench/array_rates.hpp>
#include <apps/bench/block_input.hpp>
#include <apps/bench/random_rates.hpp>
#include <apps/bench/read.hpp>
#include <apps/common/checksum.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/seconds_since.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpufs::apps {

namespace {

/// What one lane reads of a range.
struct alignas(16) range_part {
  word low, high;
};
constexpr std::uint64_t range_bytes = base::warp_size * sizeof(range_part);

/// Each warp does its requests of the plan, with 128 registers a thread as read_file has.
/// checksums[access::number] gets the checksum of the bytes of a request.
__global__ void __launch_bounds__(most_threads_by_warp, 1)
    read_ranges(fs_ref fs, int fd, access_plan plan, word* checksums, std::int32_t* error) {
  io_context io(fs, reading_group<true>());
  array<range_part const> const parts(io, fd);
  std::uint64_t const reader = reader_number<true>(), requests = plan.requests_of(reader);
  std::uint64_t const lane = lane_id();
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(reader, i);
    range_part const part = parts[a.offset / sizeof(range_part) + lane];
    word sum = checksum_term(part.low, 2 * lane) + checksum_term(part.high, 2 * lane + 1);
    for (int step = 1; step < static_cast<int>(base::warp_size); step *= 2) {
      sum += __shfl_xor_sync(base::all_lanes, static_cast<unsigned long long>(sum), step);
    }
    if (lane == 0) checksums[a.number] = sum;
  }
  note_error(error, parts.error());
}

char const* name_of(hot_way way) {
  switch (way) {
    case hot_way::array_stream: return "arraystream";
    case hot_way::ptr_stream: return "ptrstream";
    case hot_way::array_lookups: return "arraylookup";
    default: return "plain";
  }
}

bool is_plain(hot_way way) { return way == hot_way::plain_stream || way == hot_way::plain_lookups; }

bool makes_lookups(hot_way way) {
  return way == hot_way::plain_lookups || way == hot_way::array_lookups;
}

void require_none(char const* row, buffer<std::int32_t> const& error) {
  std::int32_t found = 0;
  error.copy_to_host(&found, 1);
  if (found != 0) throw std::runtime_error(std::string(row) + ": " + error_text(found));
}

void require_a_range(study const& all) {
  if (all.bytes() < range_bytes)
    throw usage_error("--set=array: needs a file and a --size of 512 bytes or more");
}

}  // namespace

struct array_rates::hot_file {
  study const& all;
  unsigned const multiprocessors = current_device().multiprocessors;
  filesystem fs;
  opened const file;
  buffer<word> plain;
  buffer<word> sums;
  buffer<std::int32_t> error;
  summing what;
  std::optional<word> stream_sum, lookup_sum;  ///< of the plain buffer

  explicit hot_file(study const& a)
      : all(a),
        fs(settings()),
        file(fs, all.file()),
        plain(all.bytes() / sizeof(word)),
        sums(threads(hot_way::plain_stream)),
        error(1),
        what{plain.size(), fs.settings().page_size / sizeof(word), lookups(), sums.data(),
             error.data()} {
    error.fill_zero();
    load_kernel(sum_plain<as_stream>);
    load_kernel(sum_plain<as_lookups>);
    load_kernel(sum_array<by_page>);
    load_kernel(sum_array<by_pointer>);
    load_kernel(sum_array<as_lookups>);
    all.file().load_into_page_cache(all.bytes());
    fill_plain();
    file_reader reader(all.plan(), all.shape());
    reader.run(fs.ref(), file.fd(), 1);
    require_success(reader.take_failure());
  }

  [[nodiscard]] config settings() const {
    config c = all.settings_at(all.settings().page_size, all.settings().prefetch_size,
                               all.fitting_cache());
    c.seats = std::max(c.seats, blocks(hot_way::array_stream));
    return c;
  }

  [[nodiscard]] unsigned blocks(hot_way way) const {
    return (is_plain(way) ? plain_blocks : array_blocks) * multiprocessors;
  }
  [[nodiscard]] std::uint64_t threads(hot_way way) const {
    return std::uint64_t{blocks(way)} * hot_threads;
  }

  /// All threads together look up a quarter of the elements.
  [[nodiscard]] std::uint64_t lookups() const {
    return std::max<std::uint64_t>(plain.size() / 4 / lookups_together, 1) * lookups_together;
  }

  void fill_plain() {
    constexpr std::uint64_t most = 2 << 20;
    pinned_buffer<word> range(std::min(plain.size(), most));
    for (std::uint64_t at = 0; at < plain.size(); at += range.size()) {
      std::uint64_t const count = std::min(range.size(), plain.size() - at);
      all.file().read(range.data(), count * sizeof(word), at * sizeof(word));
      plain.copy_from_host(range.data(), count, at);
    }
  }

  /// Returns the seconds it took.
  double run(hot_way way) {
    unsigned const n = blocks(way);
    auto const start = std::chrono::steady_clock::now();
    switch (way) {
      case hot_way::plain_stream:
        launch(sum_plain<as_stream>, n, hot_threads, plain.data(), what);
        break;
      case hot_way::array_stream:
        launch(sum_array<by_page>, n, hot_threads, fs.ref(), file.fd(), what);
        break;
      case hot_way::ptr_stream:
        launch(sum_array<by_pointer>, n, hot_threads, fs.ref(), file.fd(), what);
        break;
      case hot_way::plain_lookups:
        launch(sum_plain<as_lookups>, n, hot_threads, plain.data(), what);
        break;
      case hot_way::array_lookups:
        launch(sum_array<as_lookups>, n, hot_threads, fs.ref(), file.fd(), what);
        break;
    }
    this_thread_stream().synchronize();
    return seconds_since(start);
  }

  /// What the last run, which was that way, added up.
  [[nodiscard]] word total(hot_way way) const {
    std::vector<word> each(threads(way));
    sums.copy_to_host(each.data(), each.size());
    return std::accumulate(each.begin(), each.end(), word{0});
  }

  /// What a run must add up.
  word plain_total(hot_way way) {
    std::optional<word>& known = makes_lookups(way) ? lookup_sum : stream_sum;
    if (!known) {
      hot_way const plainly = makes_lookups(way) ? hot_way::plain_lookups : hot_way::plain_stream;
      run(plainly);
      known = total(plainly);
    }
    return *known;
  }

  [[nodiscard]] std::uint64_t bytes_of(hot_way way) const {
    return (makes_lookups(way) ? what.lookups : what.elements) * sizeof(word);
  }
};

array_rates::array_rates(study const& all) : all_(all) {}

array_rates::~array_rates() = default;

double array_rates::hot_GBps(hot_way way) {
  require_a_range(all_);
  if (!hot_) hot_ = std::make_unique<hot_file>(all_);
  std::string const row = name_of(way);
  statistics const before = hot_->fs.stats();
  std::vector<double> seconds;
  for (int run = 0; run < 4; ++run) {
    double const took = hot_->run(way);
    if (run != 0) seconds.push_back(took);  // the first does not count
  }
  require_none(row.c_str(), hot_->error);
  std::uint64_t const misses = (hot_->fs.stats() - before).misses;
  if (misses != 0)
    throw std::runtime_error(row + ": " + std::to_string(misses) + " pages were not in the cache");
  if (all_.checking() && hot_->total(way) != hot_->plain_total(way)) {
    throw std::runtime_error(row + ": the sum is not the plain kernel's");
  }
  return gigabytes_per_second(hot_->bytes_of(way), median(seconds));
}

double array_rates::ranges_GBps(char const* row, std::uint64_t page_size) const {
  return ranges_pass(row, page_size).GBps();
}

pass_result array_rates::ranges_pass(char const* row, std::uint64_t page_size) const {
  require_a_range(all_);
  random_rates const random(all_);
  random_rates::reading const r{.range = range_bytes, .page = page_size, .by_warp = true};
  std::vector<std::uint32_t> drawn;
  access_plan const plan = random.plan_of(r, drawn);
  bench_shape const shape = random.shape_of(r);
  buffer<word> checksums(plan.numbers());
  buffer<std::int32_t> error(1);
  error.fill_zero();
  load_kernel(read_ranges);
  all_.file().load_into_page_cache(all_.bytes());
  pass_result done;
  done.bytes = plan.payload();
  {
    filesystem fs(random.settings_of(r));
    opened const file(fs, all_.file());
    register_windows(fs, file.fd(), all_.file().size());
    statistics const before = fs.stats();
    std::uint64_t const commands = commands_of_kernels(fs, all_.file());
    auto const start = std::chrono::steady_clock::now();
    launch(read_ranges, shape.blocks, shape.threads, fs.ref(), file.fd(), plan, checksums.data(),
           error.data());
    this_thread_stream().synchronize();
    done.seconds = seconds_since(start);
    done.counters = counters_of_run(before, fs.stats());
    done.device_commands = commands_of_kernels(fs, all_.file()) - commands;
  }
  require_none(row, error);
  if (all_.checking()) {
    std::vector<std::uint64_t> got(checksums.size());
    checksums.copy_to_host(got.data(), got.size());
    comparison const c = compare_with_pread(all_.file(), plan, got);
    if (!c.mismatch.empty()) throw std::runtime_error(std::string(row) + ": " + c.mismatch);
  }
  return done;
}

}  // namespace gpufs::apps
