// The words of a write buffer that the daemon shares with the device, and the lock on a buffer.
#include <host-daemon/write_back/write_back.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpufs::daemon {

namespace {

// The most bytes of one batch, for the same reasons as batch_buffers.
constexpr std::uint64_t batch_bytes = 1 << 20;

}  // namespace

std::size_t write_back::batch_size() const {
  return std::clamp<std::size_t>(batch_bytes >> buffers_.page_shift(), 1, batch_buffers);
}

// The peers of these words are in gpufs/dirty/write_buffer.hpp.
std::uint64_t write_back::posted(std::uint32_t i) const {
  return buffers_.posted(i).load(std::memory_order_acquire);
}
std::uint64_t write_back::written(std::uint32_t i) const {
  return buffers_.written(i).load(std::memory_order_acquire);
}
bool write_back::is_dirty(std::uint32_t i) const {
  return posted(i) >> rpc::posted_shift != written(i) >> rpc::written_shift;
}

write_back::file_pointer write_back::file_of(std::uint32_t i) const {
  return file_of_series(rpc::series_of(version_of(i)));
}

write_back::file_pointer write_back::file_of_series(std::uint64_t series) const {
  std::lock_guard const lock{files_mutex_};
  return find_series(series);
}

write_back::file_pointer write_back::find_series(std::uint64_t series) const {
  auto const found = files_.find(series);
  if (found != files_.end()) return found->second;
  for (auto const& entry : files_without_memory_)
    if (entry.series == series) return entry.file;
  return nullptr;
}

mark_set write_back::marks_of(written_file const* file) const {
  if (file == nullptr) return mark_set{}.set();
  std::lock_guard const lock{files_mutex_};
  return file->marks;
}

// Sets the files of a batch, under one lock.
void write_back::find_files(batch& locked) const {
  std::lock_guard const lock{files_mutex_};
  series_look last;
  for (auto& h : locked) {
    auto const series = rpc::series_of(version_of(h.number));
    if (series != last.series) last = {series, find_series(series)};
    h.file = last.file;
  }
}

// Returns true if the buffer is dirty and locked. Then neither another thread nor the device
// touches it until release_buffer().
bool write_back::lock_buffer(std::uint32_t i, busy_pages busy, locked_buffer& out) {
  if (buffers_.ended(i)) busy = busy_pages::write;
  auto& claimed = watch_[i].claimed;
  if (claimed.load(std::memory_order_relaxed) || claimed.exchange(true, std::memory_order_acquire))
    return false;
  auto const before = written(i);
  auto const ours = buffers_.written(i);
  auto word = posted(i);
  bool locked = word >> rpc::posted_shift != before >> rpc::written_shift &&
                (busy == busy_pages::write || !(word & rpc::posted_busy));
  if (locked) {
    // Pairs with open_buffer(): of the device's busy bit and our locked bit, at least one side sees
    // the other's.
    ours.store(before | rpc::written_locked, std::memory_order_seq_cst);
    word = buffers_.posted(i).load(std::memory_order_seq_cst);
    if ((word & rpc::posted_busy) != 0 && busy == busy_pages::wait) {
      ours.store(before, std::memory_order_release);
      locked = false;
    }
  }
  if (!locked) {
    claimed.store(false, std::memory_order_release);
    return false;
  }
  out = {i, word >> rpc::posted_shift, page_of(i), nullptr, false};
  return true;
}

void write_back::release_buffer(locked_buffer const& locked, bool clean) {
  auto const i = locked.number;
  auto const before = written(i) >> rpc::written_shift;
  // Unless device code still adds bytes at the end of the filesystem. See mark_buffer().
  if (clean && posted(i) >> rpc::posted_shift == locked.sequence) marks_.clear(i);
  // Pairs with the device's acquire in is_clean() and open_buffer(): our reads of the buffer are
  // over, and the file has its bytes.
  buffers_.written(i).store((clean ? locked.sequence : before) << rpc::written_shift,
                            std::memory_order_seq_cst);
  watch_[i].claimed.store(false, std::memory_order_release);
}

std::uint64_t write_back::version_of(std::uint32_t i) const {
  return write_buffers::word{buffers_.header(i).version}.load(std::memory_order_relaxed);
}

std::uint64_t write_back::page_of(std::uint32_t i) const {
  return write_buffers::word{buffers_.header(i).page}.load(std::memory_order_relaxed);
}

}  // namespace gpufs::daemon
