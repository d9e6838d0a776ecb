#include <apps/common/generator.hpp>
#include <apps/gpufs-stress/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
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

/// Makes the round one of many bytes: requests of up to 1 MiB, caches of up to 1 GiB, few writes.
/// The other rounds are of few bytes, in tight places.
void widen(dice& d, round_plan& p, bool emulated) {
  unsigned const shift = emulated ? 6 : 0;  // everything is that much smaller
  config& c = p.settings;
  c.page_size = d.one_of<std::uint64_t>({4096, 4096, 16384, 65536});
  c.cache_size = d.one_of<std::uint64_t>({64ull << 20, 256ull << 20, 1ull << 30}) >> shift;
  c.prefetch_size = d.one_of<std::uint64_t>({prefetch_automatic, prefetch_automatic, 0});
  c.prefetch_memory = d.one_of<std::uint64_t>({16ull << 20, 256ull << 20}) >> shift;
  c.staging_size = std::max(d.one_of<std::uint64_t>({16ull << 20, 256ull << 20}) >> shift,
                            8 * c.page_size);  // the least that is allowed
  c.write_memory = (64ull << 20) >> shift;
  c.host_threads = static_cast<std::uint32_t>(d.from(4, 14));
  c.file_window_size = (16ull << 20) >> shift;
  c.registered_memory = d.from(1, 64) * c.file_window_size;
  c.pulls_in_flight = config().pulls_in_flight;
  p.writes = static_cast<unsigned>(d.from(1, 5));
  p.operations *= emulated ? 1 : 4;
  p.cell_bytes = 8 * d.from(1024, d.one_of<std::uint64_t>({2048, 8192, 131072}) >> shift / 2);
}

}  // namespace

round_plan draw_plan(std::uint64_t seed, bool emulated) {
  dice d(seed);
  round_plan p;
  p.seed = seed;
  p.impatient = d.one_in(5);
  p.settings = draw_settings(d, p.impatient);
  p.filesystems = d.one_in(3) ? 2 : 1;
  p.blocks = static_cast<unsigned>(d.from(1, emulated ? 8 : 128));
  p.threads = static_cast<unsigned>(32 * d.from(1, emulated ? 4 : 16));
  p.tiles = d.one_in(2);
  p.launches = static_cast<unsigned>(d.from(1, 4));
  p.operations = static_cast<unsigned>(d.from(8, emulated ? 64 : 512));
  p.cell_bytes = 8 * d.from(1, d.one_of<std::uint64_t>({8, 64, 512, 2048}));
  bool const wide = !p.impatient && d.one_in(3);
  if (wide) widen(d, p, emulated);
  std::uint64_t const most_bytes = (emulated ? 16ull : wide ? 512ull : 256ull) << 20;
  p.cell_bytes =
      std::min(p.cell_bytes, std::max<std::uint64_t>(most_bytes / p.owners() / 8, 1) * 8);
  p.cells = p.owners() *
            std::clamp<std::uint64_t>(most_bytes / (p.owners() * p.cell_bytes), 1, d.from(1, 8));
  p.host_writes = d.one_in(3);
  p.foreign_writes = d.one_in(3);
  p.forks = d.one_in(8);
  if (d.one_in(4)) {
    p.kill_after =
        1 + d.below(std::uint64_t(p.filesystems) * p.workers() * p.launches * p.operations);
  }
  return p;
}

std::string to_text(round_plan const& p) {
  std::string text = fmt::format(
      "{} filesystems, {} x {} x {} threads as {}, {} operations ({} % writes), {} cells of {} "
      "bytes{}{}{}{}",
      p.filesystems, p.launches, p.blocks, p.threads, p.tiles ? "tiles" : "blocks", p.operations,
      p.writes, p.cells, p.cell_bytes, p.host_writes ? ", fs.write" : "",
      p.foreign_writes ? ", another process writes" : "", p.forks ? ", forks" : "",
      p.kill_after != 0 ? fmt::format(", killed after {} operations", p.kill_after) : "");
  for (setting const& s : settings()) text += fmt::format(" {}={}", s.flag(), s.print(p.settings));
  return text;
}

}  // namespace gpufs::stress
