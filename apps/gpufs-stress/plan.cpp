#include <apps/common/generator.hpp>
#include <apps/gpufs-stress/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <initializer_list>

namespace gpufs::stress {

namespace {

class dice {
 public:
  explicit dice(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  std::uint64_t from(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  bool one_in(unsigned n) { return below(n) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::uint64_t next() { return apps::generate(seed_, count_++); }
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

config draw_settings(dice& d, bool impatient) {
  config c;
  c.page_size = d.one_of<std::uint64_t>({512, 1024, 4096, 4096, 16384, 65536});
  std::uint64_t const frames = d.one_of<std::uint64_t>({8, 16, 32, 64, 256, 1024});
  c.cache_size = frames * c.page_size;
  c.prefetch_size = d.one_of<std::uint64_t>(
      {prefetch_automatic, prefetch_automatic, 0, c.page_size, 4 * c.page_size});
  std::uint64_t const ahead = c.prefetch_size == prefetch_automatic ? 0 : c.prefetch_size;
  c.prefetch_memory =
      round_up(std::max<std::uint64_t>(64 << 10, d.from(8, 64) * (c.page_size + ahead)), 4096);
  c.staging_size = round_up(std::max<std::uint64_t>(64 << 10, d.from(8, 64) * c.page_size), 4096);
  c.write_memory = round_up(d.from(4, 64) * c.page_size, 4096);
  c.host_threads = static_cast<std::uint32_t>(d.from(1, 4));
  c.backend = d.one_of({io_backend::automatic, io_backend::automatic, io_backend::pread});
  c.path = d.one_of({io_path::automatic, io_path::automatic, io_path::pull, io_path::dma,
                     io_path::direct, io_path::registered});
  c.policy = d.one_of({replacement::lra, replacement::fifo, replacement::clock});
  c.rpc_timeout_ms = impatient ? static_cast<std::uint32_t>(d.from(1, 20)) : 60000;
  c.file_window_size = std::max<std::uint64_t>(64 << 10, c.page_size);
  c.registered_memory = d.from(1, 16) * c.file_window_size;
  c.pulls_in_flight = static_cast<std::uint32_t>(d.from(1, 64));
  c.seats = static_cast<std::uint32_t>(d.from(1, 64));
  return c;
}

/// Everything of a wide round on the emulated device is that much smaller.
constexpr unsigned emulated_shift = 6;

void draw_narrow(dice& d, round_plan& p, bool emulated, memory_limits const& limits) {
  p.impatient = d.one_in(5);
  p.settings = draw_settings(d, p.impatient);
  p.filesystems = d.one_in(3) ? 2 : 1;
  p.blocks = static_cast<unsigned>(d.from(1, emulated ? 8 : 128));
  p.threads = static_cast<unsigned>(32 * d.from(1, emulated ? 4 : 16));
  p.tiles = d.one_in(2);
  p.launches = static_cast<unsigned>(d.from(1, 4));
  p.operations = static_cast<unsigned>(d.from(8, emulated ? 64 : 512));
  p.cell_bytes = 8 * d.from(1, d.one_of<std::uint64_t>({8, 64, 512, 2048}));
  std::uint64_t const most_bytes =
      std::min<std::uint64_t>((emulated ? 16ull : 256ull) << 20, largest_file(limits, false));
  p.cell_bytes =
      std::min(p.cell_bytes, std::max<std::uint64_t>(most_bytes / p.owners() / 8, 1) * 8);
  p.cells = p.owners() *
            std::clamp<std::uint64_t>(most_bytes / (p.owners() * p.cell_bytes), 1, d.from(1, 8));
  p.filled = d.one_in(2);
}

/// Pages from 4 KiB, a cache from a 32nd to half of the filesystem's GPU memory, all pulls that the
/// bus takes.
config draw_wide_settings(dice& d, std::uint64_t gpu, std::uint64_t host) {
  config c = draw_settings(d, false);
  c.page_size = d.one_of<std::uint64_t>({4096, 4096, 16384, 65536});
  c.cache_size =
      std::max(gpu / d.one_of<std::uint64_t>({32, 8, 2}) / c.page_size, std::uint64_t{64}) *
      c.page_size;
  c.prefetch_size = d.one_of<std::uint64_t>({prefetch_automatic, prefetch_automatic, 0});
  auto const pinned = [&](std::uint64_t part) {
    return round_up(std::max<std::uint64_t>({host / part, 8 * c.page_size, 64 << 10}), 4096);
  };
  c.prefetch_memory = pinned(d.one_of<std::uint64_t>({512, 32}));
  c.staging_size = pinned(d.one_of<std::uint64_t>({512, 32}));
  c.write_memory = pinned(128);
  c.host_threads = static_cast<std::uint32_t>(d.from(4, 14));
  c.file_window_size = std::bit_floor(std::clamp<std::uint64_t>(host / 512, 64 << 10, 16 << 20));
  c.registered_memory = d.from(1, 64) * c.file_window_size;
  c.pulls_in_flight = config().pulls_in_flight;
  c.seats = config().seats;
  return c;
}

/// The sizes of a wide round's cells and file, and the number of its operations: they read the file
/// `passes` times.
void draw_wide_sizes(dice& d, round_plan& p, std::uint64_t gpu, std::uint64_t most_file,
                     std::uint64_t passes) {
  std::uint64_t const file = most_file / d.one_of<std::uint64_t>({8, 4, 1});
  std::uint64_t const buffers = gpu / 4;  // of the workers of a filesystem
  std::uint64_t const most_cell = std::min(file / p.owners(), buffers / p.workers());
  p.cell_bytes = 8 * d.from(1024, d.one_of<std::uint64_t>({2048, 8192, 65536}));
  p.cell_bytes = std::clamp<std::uint64_t>(p.cell_bytes, 8, std::max<std::uint64_t>(most_cell, 8));
  p.cell_bytes = p.cell_bytes / 8 * 8;
  p.cells = std::max<std::uint64_t>(file / p.cell_bytes, p.owners());
  p.cells_at_once = static_cast<unsigned>(std::clamp<std::uint64_t>(
      buffers / (p.workers() * p.cell_bytes), 1, d.from(2, round_plan::most_cells_at_once)));
  std::uint64_t const workers = std::uint64_t(p.filesystems) * p.workers() * p.launches;
  std::uint64_t const usual_bytes =  // of an operation
      p.cell_bytes * (p.weights.read_many * p.cells_at_once + p.weights.read / 4) / p.weights.sum();
  constexpr std::uint64_t most_operations = 16 << 20;  // of all workers: each has a note
  p.operations = static_cast<unsigned>(
      std::clamp<std::uint64_t>(passes * file / (workers * std::max<std::uint64_t>(usual_bytes, 1)),
                                8, most_operations / workers));
}

void draw_wide(dice& d, round_plan& p, bool emulated, memory_limits const& limits) {
  unsigned const shift = emulated ? emulated_shift : 0;
  p.wide = true;
  p.filled = true;
  p.filesystems = d.one_in(4) ? 2 : 1;
  std::uint64_t const gpu = (limits.gpu >> shift) / p.filesystems;
  p.settings = draw_wide_settings(d, gpu, (limits.host >> shift) / p.filesystems);
  p.blocks = static_cast<unsigned>(emulated ? d.from(4, 8) : d.from(96, 264));
  p.threads = static_cast<unsigned>(32 * (emulated ? d.from(1, 4) : d.from(4, 16)));
  p.tiles = d.one_in(2);
  p.launches = static_cast<unsigned>(d.from(1, 3));
  p.writes = static_cast<unsigned>(d.from(0, 5));
  // An element is 8 bytes that are compared and a page that is fetched.
  p.weights = {.read = d.one_of({30u, 300u}),
               .read_many = d.one_of({100u, 300u}),
               .element = 1,
               .map = 20,
               .sync = 1,
               .open_again = 10,
               .append = 4,
               .advise = 2};
  draw_wide_sizes(d, p, gpu, largest_file(limits, emulated),
                  emulated ? d.from(1, 4) : d.one_of<std::uint64_t>({16, 64, 256}));
}

}  // namespace

std::uint64_t largest_file(memory_limits const& limits, bool emulated) {
  return (limits.host >> (emulated ? emulated_shift : 0)) / 2;
}

round_plan draw_plan(std::uint64_t seed, bool emulated, memory_limits const& limits) {
  dice d(seed);
  round_plan p;
  p.seed = seed;
  if (seed % 2 != 0) {
    draw_wide(d, p, emulated, limits);
  } else {
    draw_narrow(d, p, emulated, limits);
  }
  p.host_writes = d.one_in(3);
  p.foreign_writes = d.one_in(3);
  p.forks = d.one_in(8);
  if (d.one_in(4)) {
    std::uint64_t const all =
        std::uint64_t(p.filesystems) * p.workers() * p.launches * p.operations;
    // Early ones, too: a wide round may be cut short before all are done.
    p.kill_after = 1 + d.below(std::max<std::uint64_t>(all / d.one_of({1u, 8u, 64u}), 1));
  }
  return p;
}

std::string to_text(round_plan const& p) {
  std::string text = fmt::format(
      "{}, {} filesystems, {} x {} x {} threads as {}, {} operations ({} % writes), {} cells of {} "
      "bytes, {} at once{}{}{}{}{}",
      p.wide ? "wide" : "narrow", p.filesystems, p.launches, p.blocks, p.threads,
      p.tiles ? "tiles" : "blocks", p.operations, p.writes, p.cells, p.cell_bytes, p.cells_at_once,
      p.filled ? ", filled" : "", p.host_writes ? ", fs.write" : "",
      p.foreign_writes ? ", another process writes" : "", p.forks ? ", forks" : "",
      p.kill_after != 0 ? fmt::format(", killed after {} operations", p.kill_after) : "");
  for (setting const& s : settings()) text += fmt::format(" {}={}", s.flag(), s.print(p.settings));
  return text;
}

}  // namespace gpufs::stress
