// The baseline's memory and life cycle.
#include <gpufs/config.hpp>
#include <gpufs/device.hpp>

#include <apps/baseline/original.hpp>
#include <apps/baseline/original_host.hpp>
#include <apps/common/host_file.hpp>

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <stdexcept>

namespace gpufs::apps::original {

namespace {

options checked(options const& o) {
  auto const refuse = [](std::string const& why) {
    throw std::invalid_argument("baseline gpufs: " + why);
  };
  if (o.page_size < 512 || o.page_size > 4 << 20 || (o.page_size & (o.page_size - 1)) != 0) {
    refuse(fmt::format("pages of {}: must be a power of two from 512 to 4M",
                       format_size(o.page_size)));
  }
  if (o.cache_size < o.page_size || o.cache_size / o.page_size >= no_frame) {
    refuse(fmt::format("a cache of {}: must hold from 1 to {} pages of {}",
                       format_size(o.cache_size), no_frame - 1, format_size(o.page_size)));
  }
  if (o.readahead > 64 << 20 || o.readahead % o.page_size != 0) {
    refuse(fmt::format("readahead of {}: must be a multiple of the page size, {}, up to 64M",
                       format_size(o.readahead), format_size(o.page_size)));
  }
  if (o.slots < 1 || o.slots > 4096)
    refuse(fmt::format("{} slots: must be from 1 to 4096", o.slots));
  if (o.host_threads < 1 || o.host_threads > o.slots || o.host_threads > 256) {
    refuse(fmt::format("{} host threads: must be from 1 to 256, and at most the {} slots",
                       o.host_threads, o.slots));
  }
  return o;
}

template <class Memory>
Memory zeroed(std::uint64_t count) {
  Memory memory(count);
  memory.fill_zero();
  return memory;
}

}  // namespace

struct file_system::state {
  options settings;
  host_file file;
  std::uint64_t page_count;
  std::uint32_t frame_count;
  pinned_buffer<request_slot> requests;
  pinned_buffer<answer_slot> answers;
  pinned_buffer<std::byte> thread_buffers;
  buffer<std::uint32_t> slot_locks;
  buffer<std::uint32_t> slot_numbers;
  buffer<staged_range> staged;
  buffer<std::byte> staging;
  buffer<std::uint64_t> pages;
  buffer<std::byte> frames;
  buffer<std::uint64_t> frame_page;
  buffer<std::uint32_t> free_frames;
  buffer<std::uint32_t> fifo;
  buffer<frame_lists> lists;
  buffer<std::uint32_t> lock;
  buffer<std::uint64_t> counts;
  original::ref ref;
  std::unique_ptr<host_threads> threads;

  state(std::string const& path, options const& o)
      : settings(checked(o)),
        file(path),
        page_count(file.size() / o.page_size + (file.size() % o.page_size != 0)),
        frame_count(static_cast<std::uint32_t>(o.cache_size / o.page_size)),
        requests(zeroed<pinned_buffer<request_slot>>(o.slots)),
        answers(zeroed<pinned_buffer<answer_slot>>(o.slots)),
        thread_buffers(
            zeroed<pinned_buffer<std::byte>>(o.host_threads * (o.page_size + o.readahead))),
        slot_locks(zeroed<buffer<std::uint32_t>>(o.slots)),
        slot_numbers(zeroed<buffer<std::uint32_t>>(o.slots)),
        staged(zeroed<buffer<staged_range>>(o.slots)),
        staging(zeroed<buffer<std::byte>>(o.slots * (o.page_size + o.readahead))),
        pages(zeroed<buffer<std::uint64_t>>(page_count)),
        frames(std::uint64_t(frame_count) * o.page_size),
        frame_page(zeroed<buffer<std::uint64_t>>(frame_count)),
        free_frames(frame_count),
        fifo(frame_count),
        lists(1),
        lock(zeroed<buffer<std::uint32_t>>(1)),
        counts(zeroed<buffer<std::uint64_t>>(counters)) {
    std::vector<std::uint32_t> all(frame_count);
    std::iota(all.begin(), all.end(), 0u);
    free_frames.copy_from_host(all.data(), all.size());
    frame_lists const fresh{frame_count, 0, 0};
    lists.copy_from_host(&fresh, 1);

    ref.requests = requests.data();
    ref.answers = answers.data();
    ref.slots = o.slots;
    ref.slot_locks = slot_locks.data();
    ref.slot_numbers = slot_numbers.data();
    ref.staged = staged.data();
    ref.staging = staging.data();
    ref.pages = pages.data();
    ref.frames = frames.data();
    ref.frame_page = frame_page.data();
    ref.free_frames = free_frames.data();
    ref.fifo = fifo.data();
    ref.lists = lists.data();
    ref.lock = lock.data();
    ref.counts = counts.data();
    ref.frame_count = frame_count;
    ref.page_bytes = o.page_size;
    ref.readahead_bytes = o.readahead;
    ref.file_bytes = file.size();
    ref.timeout_ns = std::uint64_t(o.timeout_ms) * 1'000'000;
    threads = std::make_unique<host_threads>(file, ref, thread_buffers.data(), settings);
  }
};

file_system::file_system(std::string const& path, options const& o)
    : state_(std::make_unique<state>(path, o)) {}

file_system::~file_system() = default;

original::ref file_system::ref() const { return state_->ref; }

void file_system::start_counting() {
  state_->counts.fill_zero();
  state_->threads->start_counting();
}

statistics file_system::stats() const {
  std::array<std::uint64_t, counters> n{};
  state_->counts.copy_to_host(n.data(), n.size());
  auto const of = [&](counter which) { return n[static_cast<unsigned>(which)]; };
  statistics s;
  s.hits = of(counter::hits);
  s.misses = of(counter::misses);
  s.waits = of(counter::waits);
  s.evictions = of(counter::evictions);
  s.requests = of(counter::requests);
  s.bytes_dma = state_->threads->bytes_moved();
  s.threads = state_->threads->stats();
  return s;
}

std::string file_system::failure() const { return state_->threads->failure(); }

}  // namespace gpufs::apps::original
