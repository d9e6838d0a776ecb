#include <apps/common/worker_threads.hpp>
#include <apps/mapping/files/file_pipeline.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace gpufs::apps::workloads {

namespace {

/// Calls work(lane) for each lane, each on a thread of its own.
template <class Lanes, class Work>
void share_out(Lanes& lanes, Work const& work) {
  int const device = current_device_number();
  run_on_threads(static_cast<unsigned>(lanes.size()), [&](unsigned n) {
    make_device_current(device);
    work(lanes[n]);
  });
}

}  // namespace

file_pipeline::file_pipeline() : lanes_(io_threads()) {}

std::vector<file_pipeline::piece> file_pipeline::pieces_of(std::span<whole_move const> moves) {
  std::vector<piece> pieces;
  for (auto const& m : moves) {
    for (std::uint64_t at = 0; at < m.bytes; at += piece_bytes)
      pieces.push_back({&m, at, std::min(piece_bytes, m.bytes - at)});
  }
  return pieces;
}

void file_pipeline::load(std::span<whole_move const> moves) {
  auto const pieces = pieces_of(moves);
  std::atomic<std::size_t> next{0};
  share_out(lanes_, [&](lane& l) {
    unsigned turn = 0;
    // Relaxed: a counter, which orders nothing.
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();) {
      auto const& p = pieces[i];
      slot& s = l.slots[turn++ % 2];
      s.done.synchronize();
      p.of->file->read(s.bytes.data(), p.bytes, p.offset);
      device_memory::pinned_copy const copy{p.of->device + p.offset, s.bytes.data(), p.bytes};
      device_memory::copy_to_device(l.on, {&copy, 1});
      s.done.record(l.on);
    }
    l.on.synchronize();
  });
}

void file_pipeline::write_piece(slot& s) {
  if (s.holds.of == nullptr) return;
  s.done.synchronize();
  auto const& to = *s.holds.of;
  if (to.memory != nullptr)
    std::memcpy(to.memory + s.holds.offset, s.bytes.data(), s.holds.bytes);
  else
    to.file->write(s.bytes.data(), s.holds.bytes, s.holds.offset);
  s.holds = {};
}

void file_pipeline::store(std::span<whole_move const> moves) {
  auto const pieces = pieces_of(moves);
  std::atomic<std::size_t> next{0};
  share_out(lanes_, [&](lane& l) {
    unsigned turn = 0;
    // Relaxed: as above.
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();) {
      slot& s = l.slots[turn++ % 2];
      write_piece(s);
      s.holds = pieces[i];
      device_memory::copy_to_pinned(l.on, s.bytes.data(), s.holds.of->device + s.holds.offset,
                                    s.holds.bytes);
      s.done.record(l.on);
      write_piece(l.slots[turn % 2]);
    }
    for (auto& s : l.slots) write_piece(s);
  });
}

}  // namespace gpufs::apps::workloads
