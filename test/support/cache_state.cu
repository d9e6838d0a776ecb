// Copies the state out with a kernel, since the test owns none of that memory, and checks it on the
// host.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::test {

namespace {

__global__ void copy_words(std::uint32_t const* from, std::uint32_t* to, std::uint64_t words) {
  for (std::uint64_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

template <class T>
std::vector<T> fetch(T const* from, std::uint64_t count) {
  std::vector<T> host(count);
  if (count == 0) return host;
  buffer<T> copy(count);
  launch(copy_words, 1, 64, reinterpret_cast<std::uint32_t const*>(from),
         reinterpret_cast<std::uint32_t*>(copy.data()), std::uint64_t(count * sizeof(T) / 4));
  this_thread_stream().synchronize();
  copy.copy_to_host(host.data(), count);
  return host;
}

std::string of_frame(std::size_t i) { return " of frame " + std::to_string(i); }

std::string table_problem(std::vector<cache::frame_header> const& headers,
                          std::vector<std::uint64_t> const& entries) {
  std::vector<unsigned> seen(headers.size());
  for (auto const entry : entries) {
    if (entry == 0) continue;
    auto const frame = static_cast<std::uint32_t>(entry) - 1;
    if (frame >= headers.size())
      return "a table entry names frame " + std::to_string(frame) + ", which does not exist";
    ++seen[frame];
  }
  std::set<std::pair<std::uint64_t, std::uint64_t>> names;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    auto const& h = headers[i];
    bool const ready = cache::phase_of(h.state) == cache::phase::ready;
    if (seen[i] != (ready ? 1u : 0u))
      return std::to_string(seen[i]) + " table entries" + of_frame(i) +
             (ready ? ", ready" : ", not ready");
    if (ready && !names.emplace(h.version, h.page).second)
      return "page " + std::to_string(h.page) + " is in two frames";
  }
  return {};
}

// A frame with a write buffer is pinned once for it.
std::string frame_problem(std::vector<cache::frame_header> const& headers,
                          std::vector<std::uint32_t> const& buffers, std::uint64_t pinned) {
  std::uint64_t pins = 0;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    auto const p = cache::phase_of(headers[i].state);
    auto const has_buffer = !buffers.empty() && buffers[i] != 0 ? 1u : 0u;
    if (!buffers.empty() && (buffers[i] & dirty::frame_locked) != 0) return "a lock" + of_frame(i);
    auto const pins_now = cache::pins_of(headers[i].state);
    if (pins_now < has_buffer) return "no pin for the write buffer" + of_frame(i);
    auto const mine = pins_now - has_buffer;
    if (p != cache::phase::empty && p != cache::phase::ready && p != cache::phase::failed) {
      return "phase " + std::to_string(static_cast<unsigned>(p)) + of_frame(i);
    }
    if (mine > 1 || (mine == 1 && pinned == 0)) return std::to_string(mine) + " pins" + of_frame(i);
    pins += mine;
  }
  return pins == pinned
             ? std::string{}
             : std::to_string(pins) + " frames are pinned, not " + std::to_string(pinned);
}

}  // namespace

cache_state inspect(fs_ref const& fs, std::uint64_t pinned) {
  cache_state result;
  auto const headers = fetch(fs.cache.headers, fs.cache.frame_count);
  auto const entries = fetch(fs.cache.buckets, fs.cache.bucket_count * cache::bucket_ways);
  auto const locks = fetch(fs.cache.bucket_locks, fs.cache.bucket_count);
  auto const seats = fetch(fs.seats.states, fs.seats.count);
  for (auto const& h : headers) {
    if (cache::phase_of(h.state) != cache::phase::ready) continue;
    ++result.ready;
    result.pages.insert(h.page);
  }

  auto const frame_buffers =
      fetch(fs.writes.frame_buffers, fs.writes.frame_buffers == nullptr ? 0 : fs.cache.frame_count);
  auto const buffers = fetch(fs.writes.buffers, fs.link.shared.writes.count);
  result.problems = frame_problem(headers, frame_buffers, pinned);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    auto const owner = buffers[i].owner;
    if (owner == dirty::buffer_taken ||
        (owner != dirty::buffer_free && frame_buffers[owner - 1] != i + 1))
      result.problems = "write buffer " + std::to_string(i) + " is neither free nor its frame's";
  }
  if (result.problems.empty()) result.problems = table_problem(headers, entries);
  if (std::ranges::count(locks, 0u) != std::ptrdiff_t(locks.size()))
    result.problems = "a bucket is locked";
  if (std::ranges::count(seats, 0u) != std::ptrdiff_t(seats.size()))
    result.problems = "a seat is claimed";
  auto const keepers = fetch(fs.pins.keepers, fs.cache.frame_count);
  auto const kept = fetch(fs.pins.kept_frames, fs.pins.kept_groups * handle::kept_stride);
  if (std::ranges::count(keepers, 0u) != std::ptrdiff_t(keepers.size()) ||
      std::ranges::count(kept, 0u) != std::ptrdiff_t(kept.size()))
    result.problems = "a frame is kept";
  std::set<std::uint32_t> held;
  for (auto const& a : fetch(fs.ahead.pages, fs.ahead.count)) {
    if (a.phase == static_cast<std::uint32_t>(ring::ahead_phase::changing))
      result.problems = "a request ahead has an owner";
    if (a.phase == static_cast<std::uint32_t>(ring::ahead_phase::requested)) held.insert(a.channel);
  }
  result.ahead = held.size();
  for (auto const& pool : {fs.channels.control, fs.channels.page, fs.prefetch.channels}) {
    std::uint32_t number = pool.first;
    for (auto const& c : fetch(pool.states, pool.count)) {
      bool const busy = ring::is_owned(c.word);
      bool const ahead = held.contains(number++);
      if (busy && !ahead) result.problems = "a channel is busy";
      if (ahead && !busy) result.problems = "a request ahead has lost its channel";
      if (ring::phase_of_state(c.word) == ring::channel_phase::quarantined) ++result.quarantined;
    }
  }
  return result;
}

}  // namespace gpufs::test
