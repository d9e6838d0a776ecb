// The way of locked write buffers to their files: sort, join to long runs, write, note the
// failures.
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/profiler_range.hpp>
#include <host-daemon/base/reported_error.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include <sys/uio.h>

namespace gpufs::daemon {

namespace {

constexpr unsigned most_fruitless = 100;

// The longest part of a file that is sent to the disk by one call: stop() may wait for it.
constexpr std::uint64_t most_begun = 64 << 20;

}  // namespace

// Adds the buffer's pieces in the order of the file. Returns false if the header is damaged, by a
// kernel's wild store: ranges that do not lie in the page are left out then, and all of them if the
// page is none. A host that believed them would write other memory to the file.
bool write_back::pieces_of(locked_buffer& locked, buffer_pieces& pieces) const {
  auto const shift = buffers_.page_shift();
  if (locked.page > rpc::payload_mask >> shift) return false;
  auto& header = buffers_.header(locked.number);
  // One look at each word, as a wild store may change it at any time.
  auto const load = [](std::uint32_t& word) {
    return std::atomic_ref<std::uint32_t>{word}.load(std::memory_order_relaxed);
  };
  auto const page = locked.page << shift;
  auto* const bytes = buffers_.bytes(locked.number);
  auto const ranges = load(header.ranges);
  bool sound = ranges <= rpc::most_ranges;
  for (std::uint32_t r = 0; r < std::min(ranges, rpc::most_ranges); ++r) {
    auto const begin = load(header.range[r].begin), end = load(header.range[r].end);
    if (begin < end && end <= std::uint32_t(1) << shift)
      pieces.push_back({&locked, page + begin, bytes + begin, end - begin});
    else
      sound = false;
  }
  std::ranges::sort(pieces, {}, &piece::offset);
  return sound;
}

// Returns whether one call can write both: in one file, one behind the other, of one endpoint.
bool write_back::continues(piece const& before, piece const& next) const {
  return before.buffer->file == next.buffer->file && before.offset + before.length == next.offset &&
         buffers_.endpoint_of(before.buffer->number) == buffers_.endpoint_of(next.buffer->number);
}

void write_back::write(batch& locked) {
  if (locked.empty()) return;
  find_files(locked);
  std::ranges::sort(locked, {}, [](locked_buffer const& h) {
    return std::tuple{h.file.get(), h.page};
  });
  run together;
  auto const write_together = [&] {
    if (!together.empty()) write_run(together.begin(), together.end());
    together.clear();
  };
  for (auto& h : locked) {
    if (h.file == nullptr) {
      fail(h, EBADF);  // its file was closed while the device wrote
      continue;
    }
    h.file->changed = true;
    buffer_pieces pieces;
    if (!pieces_of(h, pieces)) fail(h, EIO);
    for (auto const& p : pieces) {
      if (together.full() || (!together.empty() && !continues(together.back(), p)))
        write_together();
      together.push_back(p);
    }
  }
  write_together();
  for (auto const& h : locked) release_buffer(h, !h.failed);
}

// Asks for a part of the file to go to the disk if it is time. A background thread calls, with no
// buffer locked. Returns whether it asked. The call may wait for the disk, so one thread at a time
// makes it, and only if another one is free then: that goes on as fast as the OS page cache takes
// bytes. The next call goes on behind this part, and begins anew behind the last byte.
bool write_back::begin_sync(written_file& file) {
  auto const is_time = [&] {
    return file.behind.load(std::memory_order_relaxed) >= write_behind_ &&
           !ending_.load(std::memory_order_relaxed);
  };
  if (write_behind_ == 0 || !is_time() || begins_sync_.exchange(true, std::memory_order_acquire))
    return false;
  bool const others_write = free_threads_.fetch_sub(1, std::memory_order_relaxed) > 1;
  std::unique_lock telling{file.telling, std::defer_lock};
  // The last caller may have asked for this file. A sync under way sends its bytes, too.
  bool const asks = others_write && is_time() && telling.try_lock();
  if (asks) {
    file.behind.store(0, std::memory_order_relaxed);
    // Only the thread that has begins_sync_ changes begun_to.
    auto const end = file.end.load(std::memory_order_relaxed);
    auto const last = file.begun_to.load(std::memory_order_relaxed);
    auto const from = last < end ? last : 0;
    auto const to = std::min(end, from + most_begun);
    int const error = file.host->begin_sync(from, to - from);
    file.begun_to.store(to, std::memory_order_relaxed);
    // Some file systems tell only this caller that they lost bytes.
    if (error == -EIO || error == -ENOSPC || error == -EDQUOT) note_loss(file, error);
    telling.unlock();
  }
  free_threads_.fetch_add(1, std::memory_order_relaxed);
  begins_sync_.store(false, std::memory_order_release);
  return asks;
}

// Writes pieces [first, last), which are consecutive in one file and of one endpoint. A piece that
// finds no room keeps none behind it out of the file: those may have their place on a full disk.
// After another error the rest fails without a try, as each may take as long as a time-out.
void write_back::write_run(piece const* first, piece const* last) {
  std::uint64_t skip = 0;  // bytes of the first piece that are written
  for (unsigned fruitless = 0; first != last;) {
    auto const result = write_some(first, last, skip);
    if (result > 0) {
      fruitless = 0;
      skip += std::uint64_t(result);
      while (first != last && skip >= first->length) skip -= first++->length;
      continue;
    }
    if (result == 0 || result == -EINTR || result == -EAGAIN)
      if (++fruitless < (result == -EINTR ? most_interruptions : most_fruitless)) continue;
    bool const is_of_place = result == -ENOSPC || result == -EDQUOT || result == -EFBIG;
    do fail(*first++->buffer, result == 0 ? EIO : int(-result));
    while (!is_of_place && first != last);
    fruitless = 0;
    skip = 0;
  }
}

// Makes one system call. Returns the bytes written or -errno.
std::int64_t write_back::write_some(piece const* first, piece const* last, std::uint64_t skip) {
  ::iovec vectors[most_pieces];
  std::size_t count = 0;
  std::uint64_t length = 0;
  for (auto const* p = first; p != last; ++p) {
    auto const from = p == first ? skip : 0;
    vectors[count++] = {p->bytes + from, p->length - from};
    length += p->length - from;
  }
  auto const offset = first->offset + skip;
  auto const& file = *first->buffer->file->host;
  auto const written = [&] {
    profiler_range const range{
        [&] { return fmt::format("write back {}: {} bytes", file.traced_name(), length); }};
    if (requests_ == nullptr) return write_vectors(file, {vectors, count}, offset, length);
    auto const begin = clock::now();
    auto const result = write_vectors(file, {vectors, count}, offset, length);
    requests_->record({.kind = host_request::write,
                       .path = "write_back",
                       .offset = offset,
                       .length = length,
                       .result = result,
                       .begin = begin,
                       .end = clock::now()},
                      file);
    return result;
  }();
  if (written < 0) return written;
  auto& counts = counts_[buffers_.endpoint_of(first->buffer->number)];
  counts.writes.fetch_add(1, std::memory_order_relaxed);
  counts.bytes.fetch_add(std::uint64_t(written), std::memory_order_relaxed);
  auto& to = *first->buffer->file;
  to.behind.fetch_add(std::uint64_t(written), std::memory_order_relaxed);
  auto const reached = offset + std::uint64_t(written);
  for (auto end = to.end.load(std::memory_order_relaxed);
       end < reached && !to.end.compare_exchange_weak(end, reached, std::memory_order_relaxed);) {
  }
  return written;
}

// Writes the vectors, unless the injector has it otherwise.
std::int64_t write_back::write_vectors(stored_file const& file, std::span<::iovec> vectors,
                                       std::uint64_t offset, std::uint64_t length) {
  if (faults_ != nullptr) {
    auto const action = faults_->before_write(file.read_descriptor(), offset, length);
    if (action.what == fault_action::kind::fail) return -action.error;
    if (action.what == fault_action::kind::hold) {
      action.until->arrive();
      while (!action.until->is_open()) {
        if (ending_.load(std::memory_order_relaxed)) return -EIO;  // the gate stays closed
        std::this_thread::sleep_for(std::chrono::microseconds{100});
      }
    }
    if (action.what == fault_action::kind::shorten) {
      vectors[0].iov_len = std::clamp<std::size_t>(action.bytes, 1, vectors[0].iov_len);
      vectors = vectors.first(1);
    }
  }
  return file.write(vectors, offset);
}

void write_back::fail(locked_buffer& locked, int error) {
  if (std::exchange(locked.failed, true)) return;  // of another range; it may be reported by now
  auto& w = watch_[locked.number];
  w.failed.store(locked.sequence, std::memory_order_relaxed);
  int const told = reported_error(-error);
  w.error.store(told, std::memory_order_relaxed);
  if (locked.file != nullptr) {
    int none = 0;
    if (locked.file->error.compare_exchange_strong(none, told, std::memory_order_seq_cst))
      show_error(*locked.file);
  }
  // Last: a flush that sees this reports the error above.
  w.failed_at.store(failures_.fetch_add(1, std::memory_order_relaxed) + 1,
                    std::memory_order_release);
}

}  // namespace gpufs::daemon
