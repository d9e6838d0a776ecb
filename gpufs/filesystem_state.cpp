#include <gpufs/filesystem_state.hpp>
#include <gpufs/twin_copier.hpp>
#include <gpufs/window_mapper.hpp>

#include <host-daemon/drain_at_exit.hpp>

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <exception>
#include <utility>

#include <unistd.h>

namespace gpufs {

namespace {

config checked(config c) {
  validate(c);
  return c;
}

/// Allocates, and says which setting to lower when that fails.
template <class Memory>
Memory allocate(std::uint64_t count, char const* what, char const* remedy) {
  try {
    Memory memory(count);
    memory.fill_zero();
    return memory;
  } catch (device_error const& e) {
    throw device_error(
        fmt::format("no memory for {} ({} elements): {}; {}", what, count, e.what(), remedy));
  }
}

template <class T>
buffer<T> on_device(std::uint64_t count, char const* what, char const* remedy) {
  return allocate<buffer<T>>(count, what, remedy);
}
template <class T>
pinned_buffer<T> pinned(std::uint64_t count, char const* what, char const* remedy) {
  return allocate<pinned_buffer<T>>(count, what, remedy);
}

/// Bytes of memory that the host has; 0: unknown.
std::uint64_t host_memory() {
  auto const pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages <= 0 || page <= 0 ? 0 : std::uint64_t(pages) * std::uint64_t(page);
}

constexpr std::uint64_t keepers_begin = 32;

constexpr char lower_cache[] = "lower cache_size";
constexpr char lower_staging[] = "lower staging_size";
constexpr char lower_writes[] = "lower write_memory";

}  // namespace

filesystem::state::state(config const& c, std::shared_ptr<daemon::fault_injector> f)
    : settings(checked(c)),
      sizes(layout::of(
          settings, settings.host_threads != 0 ? settings.host_threads : daemon::default_threads(),
          host_memory())),
      faults(std::move(f)),
      ring(pinned<rpc::slot>(sizes.rings * sizes.ring_slots, "the request ring", lower_staging)),
      completions(pinned<rpc::completion>(sizes.channels, "completion words", lower_staging)),
      staging(pinned<std::byte>(sizes.staging_bytes, "staging", lower_staging)),
      open_files(pinned<rpc::open_file_record>(settings.max_open_files, "open-file records",
                                               "lower max_open_files")),
      control(pinned<rpc::control_block>(1, "the control block", lower_staging)),
      write_headers(pinned<rpc::buffer_header>(sizes.write_buffers, "write buffers", lower_writes)),
      write_words(pinned<std::uint64_t>(
          sizes.write_buffers == 0 ? 0 : 2 * sizes.write_buffers + settings.max_open_files,
          "write buffers", lower_writes)),
      write_bytes(pinned<std::byte>(sizes.write_buffers * settings.page_size, "write buffers",
                                    lower_writes)),
      tails(on_device<std::uint64_t>(sizes.rings * tail_stride, "the rings' tails", lower_cache)),
      sweep_hand(on_device<std::uint64_t>(1, "the sweep's hand", lower_cache)),
      buckets(on_device<std::uint64_t>(sizes.buckets * bucket_ways, "the page table", lower_cache)),
      bucket_locks(on_device<std::uint32_t>(sizes.buckets, "the page table's locks", lower_cache)),
      headers(
          on_device<std::byte>(sizes.frames * sizeof(frame_header), "frame headers", lower_cache)),
      frames(sizes.frames * settings.page_size),
      channel_states(on_device<channel_state>(sizes.channels, "channels", lower_staging)),
      slots(
          on_device<std::uint32_t>(settings.context_slots, "context slots", "lower context_slots")),
      claimed_slots(on_device<std::uint32_t>(2, "context slots", "lower context_slots")),
      readahead(on_device<prefetch::readahead_state>(
          sizes.chunk_channels == 0 ? 1 : settings.context_slots, "prefetch buffers",
          "lower context_slots")),
      queues(on_device<lra_queue>(settings.context_slots, "replacement queues",
                                  "lower context_slots")),
      queue_totals(on_device<lra_totals>(1, "replacement queues", lower_cache)),
      queue_links(on_device<std::uint32_t>(sizes.segments, "replacement queues", lower_cache)),
      counters(
          on_device<std::uint64_t>(counter_stripes * counters_per_stripe, "counters", lower_cache)),
      pulls_under_way(on_device<std::uint32_t>(32, "the pull gate", lower_cache)),
      twin(on_device<std::byte>(settings.path == io_path::dma ? sizes.staging_bytes : 0,
                                "the twin of staging",
                                "lower staging_size and prefetch_memory, or set io_path to auto")),
      write_states(on_device<std::byte>(sizes.write_buffers * write_state_bytes, "write buffers",
                                        lower_writes)),
      frame_buffers(on_device<std::uint32_t>(sizes.write_buffers == 0 ? 0 : sizes.frames,
                                             "write buffers", lower_writes)),
      write_hand(on_device<std::uint64_t>(1, "write buffers", lower_writes)),
      shared_files(on_device<std::byte>(
          sizes.write_buffers == 0 ? 0 : settings.max_open_files * shared_file_bytes,
          "files that are written", "lower max_open_files")),
      records(on_device<std::byte>(record_shares * record_share_bytes, "descriptors in use",
                                   lower_cache)),
      write_counters(on_device<std::uint32_t>(sizes.write_buffers == 0 ? 0 : write_counter_count,
                                              "write counters", lower_cache)),
      mappings(on_device<std::uint32_t>(sizes.frames, "mapped pages", lower_cache)),
      keepers(on_device<std::uint32_t>(keepers_begin + sizes.frames, "kept pages", lower_cache)),
      window_table(on_device<rpc::window_entry>(sizes.window_slots, "the table of windows",
                                                "lower mapped_memory")),
      handle(on_device<std::byte>(sizeof(fs_ref), "the handle", lower_cache)),
      ref(make_ref()) {
  handle.copy_from_host(reinterpret_cast<std::byte const*>(&ref), sizeof ref);
  if (settings.path == io_path::dma)
    transfers = std::make_unique<daemon::transfer_engine>(
        make_twin_copier(staging.data(), twin.data()), sizes.channels,
        std::chrono::milliseconds(settings.dma_timeout_ms), faults.get());
  if (sizes.window_budget != 0)
    windows = std::make_unique<daemon::window_registrar>(
        make_window_mapper(window_table.data(), sizes.window_slots, claimed_slots.data()),
        daemon::window_settings{.window_bytes = settings.window_size,
                                .budget = sizes.window_budget,
                                .which = files_to_map(settings),
                                .cachestat = {}},
        faults.get());
  server = std::make_unique<daemon::server>(shared(), daemon::server_settings::from(settings),
                                            faults.get(), transfers.get(), windows.get());
  server->start();
  daemon::drain_at_exit(server->writes(), true);
}

filesystem::state::~state() {
  for (auto const& line : mapped()) fmt::print(stderr, "gpufs: never unmapped: {}\n", line);
  if (server) daemon::drain_at_exit(server->writes(), false);
}

rpc::shared_region filesystem::state::shared() const {
  rpc::shared_region r;
  r.ring = ring.data();
  r.rings = sizes.rings;
  r.slots = sizes.ring_slots;
  r.completions = completions.data();
  r.channels = sizes.channels;
  r.staging = staging.data();
  r.staging_bytes = sizes.staging_bytes;
  r.open_files = open_files.data();
  r.max_open_files = settings.max_open_files;
  r.control = control.data();
  if (sizes.write_buffers != 0) {
    r.writes.headers = write_headers.data();
    r.writes.posted = write_words.data();
    r.writes.written = write_words.data() + sizes.write_buffers;
    r.writes.errors = write_words.data() + 2 * sizes.write_buffers;
    r.writes.bytes = write_bytes.data();
    r.writes.count = sizes.write_buffers;
    r.writes.page_shift = static_cast<std::uint32_t>(std::countr_zero(settings.page_size));
  }
  return r;
}

fs_ref filesystem::state::make_ref() const {
  state const& s = *this;
  fs_ref r;
  r.self = reinterpret_cast<fs_ref const*>(s.handle.data());
  r.shared = s.shared();
  r.twin = s.twin.data();
  r.tails = s.tails.data();
  r.cache.buckets = s.buckets.data();
  r.cache.bucket_locks = s.bucket_locks.data();
  r.cache.headers = reinterpret_cast<frame_header*>(s.headers.data());
  r.cache.frames = s.frames.data();
  r.cache.sweep_hand = s.sweep_hand.data();
  r.cache.bucket_count = s.sizes.buckets;
  r.cache.frame_count = static_cast<std::uint32_t>(s.sizes.frames);
  r.cache.page_shift = static_cast<std::uint32_t>(std::countr_zero(s.settings.page_size));
  r.cache.policy = s.settings.policy;
  if (s.settings.policy == replacement::lra) {
    r.cache.lra = {s.queues.data(),
                   s.queue_totals.data(),
                   s.queue_links.data(),
                   s.settings.context_slots,
                   static_cast<std::uint32_t>(s.sizes.segments),
                   static_cast<std::uint32_t>(s.sizes.segment_frames)};
  }
  r.control_channels = {s.channel_states.data(), 0,
                        static_cast<std::uint32_t>(s.sizes.control_channels), 0, control_piece};
  r.page_channels = {s.channel_states.data() + s.sizes.control_channels,
                     static_cast<std::uint32_t>(s.sizes.control_channels),
                     static_cast<std::uint32_t>(s.sizes.page_channels),
                     s.sizes.control_channels * control_piece, s.sizes.page_piece};
  r.page_channels.spacing = 32;  // as many as a warp can hold
  if (s.sizes.chunk_channels != 0) {
    auto const first = s.sizes.control_channels + s.sizes.page_channels;
    r.prefetch.states = s.readahead.data();
    r.prefetch.channels = {
        s.channel_states.data() + first, static_cast<std::uint32_t>(first),
        static_cast<std::uint32_t>(s.sizes.chunk_channels),
        s.sizes.control_channels * control_piece + s.sizes.page_channels * s.sizes.page_piece,
        s.sizes.chunk_piece};
    r.prefetch.chunk_bytes = s.sizes.chunk_bytes;
    r.prefetch.depth = s.settings.prefetch_depth;
    r.prefetch.automatic = s.settings.prefetch_size == prefetch_automatic;
  }
  if (s.sizes.write_buffers != 0) {
    r.writes = {reinterpret_cast<buffer_state*>(s.write_states.data()), s.frame_buffers.data(),
                s.write_hand.data(), reinterpret_cast<shared_file*>(s.shared_files.data()),
                s.write_counters.data()};
  }
  if (s.sizes.window_slots != 0) {
    r.windows = {s.window_table.data(), static_cast<std::uint32_t>(s.sizes.window_slots - 1),
                 static_cast<std::uint32_t>(std::countr_zero(s.settings.window_size))};
  }
  r.slots = s.slots.data();
  r.records = reinterpret_cast<record_share*>(s.records.data());
  r.claimed_slots = s.claimed_slots.data();
  r.advice_changes = s.claimed_slots.data() + 1;
  r.slot_count = s.settings.context_slots;
  r.counters = s.counters.data();
  r.pulls_under_way = s.pulls_under_way.data();
  r.most_pulls = s.settings.pulls_in_flight;
  r.async_channels = s.pulls_under_way.data() + 16;  // a line of its own
  r.mappings = s.mappings.data();
  r.kept_frames = s.keepers.data();
  r.keepers = s.keepers.data() + keepers_begin;
  r.timeout_ns = std::uint64_t(s.settings.rpc_timeout_ms) * 1'000'000;
  return r;
}

std::vector<std::string> filesystem::state::mapped() const {
  std::vector<std::string> lines;
  try {
    std::vector<std::uint64_t> counts(counters.size());
    counters.copy_to_host(counts.data(), counts.size());
    if (sum(counts.data(), counter::maps) == sum(counts.data(), counter::unmaps)) return lines;
    std::vector<std::uint32_t> times(mappings.size());
    mappings.copy_to_host(times.data(), times.size());
    for (std::size_t frame = 0; frame < times.size(); ++frame) {
      if (times[frame] == 0) continue;
      frame_header h;
      headers.copy_to_host(reinterpret_cast<std::byte*>(&h), sizeof h, frame * sizeof h);
      auto const name = server->files().name_of(h.uid);
      auto const begin = h.page * settings.page_size;
      lines.push_back(fmt::format(
          "{}: bytes {}..{}, {} gmmap{}", name.empty() ? "a file that is closed" : name, begin,
          begin + settings.page_size - 1, times[frame], times[frame] == 1 ? "" : "s"));
    }
  } catch (std::exception const&) {  // a device that has failed cannot say
  }
  return lines;
}

void filesystem::state::want_windows(int fd, std::uint64_t offset, std::uint64_t length) const {
  file_status status{};
  auto const uid = daemon::uid_to_map(shared(), fd, windows->which());
  auto const file = server->files().borrow(fd);
  if (uid == 0 || !file || server->files().stat(fd, status) != 0 || offset >= status.size) return;
  auto const left = status.size - offset;
  windows->touched(uid, file, offset, length == 0 || length > left ? left : length,
                   daemon::window_registrar::patience::some);
}

std::uint64_t filesystem::state::sum(std::uint64_t const* all, counter which) const {
  std::uint64_t n = 0;
  for (unsigned s = 0; s < counter_stripes; ++s)
    n += all[s * counters_per_stripe + static_cast<unsigned>(which)];
  return n;
}

}  // namespace gpufs
