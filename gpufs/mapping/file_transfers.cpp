// What threads with lanes do for fills and write-back of shared memory.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/file_transfers.hpp>
#include <gpufs/mapping/library_threads.hpp>
#include <gpufs/mapping/merge_page.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <span>

namespace gpufs::shared {

namespace {

// The bytes of a piece of any source but `unwritten`.
int read_piece(file_side const& f, fill_piece const& piece, std::span<std::byte> to,
               bool& is_direct) {
  if (piece.source == fill_source::zeros) {
    std::memset(to.data(), 0, to.size());
    return 0;
  }
  bool const is_spilled = piece.source == fill_source::spill_file;
  auto const got = is_spilled ? f.spill_file->read(to, piece.bytes.first)
                              : f.file->read(to, f.offset + piece.bytes.first);
  if (got.bytes < 0) return int(got.bytes);
  is_direct = got.is_direct;
  if (std::uint64_t(got.bytes) == to.size()) return 0;
  return is_spilled ? -EIO : -ESTALE;
}

void put_unwritten(std::span<std::byte> to, std::uint64_t key, std::uint64_t first_word) {
  for (std::uint64_t at = 0; at + sizeof(std::uint64_t) <= to.size(); ++first_word) {
    auto const word = unwritten_word(key, first_word);
    std::memcpy(&to[at], &word, sizeof word);
    at += sizeof word;
  }
}

// The bytes behind the last whole word of an object. Behind the end of the file there are zeros.
// Returns 0 or -errno.
int read_last_bytes(object const& o, std::span<std::byte> to) {
  std::ranges::fill(to, std::byte{0});
  auto const got = o.file->file->read(to, o.file->offset + o.bytes - to.size());
  return got.bytes < 0 ? int(got.bytes) : 0;
}

// Writes the pages that find_changed() has put into the lane, neighbours in one write.
int write_runs(object const& o, write_piece& piece, file_lane& lane, std::uint32_t count) {
  auto const& f = *o.file;
  std::byte* const bytes = lane.pieces[0].bytes.data();
  auto const file_offset = [&](std::uint32_t i) {
    return f.offset + piece.bytes.first + lane.which[i] * file_page;
  };
  std::uint64_t const end = f.offset + piece.bytes.end;
  auto const merge = [&](std::uint32_t i) {
    return merge_page(bytes + i * file_page, bytes_until(end, file_offset(i)), *f.file,
                      file_offset(i), f.unwritten_key);
  };
  for (std::uint32_t i = 0; i < count;) {
    std::uint32_t last = i;  // one behind the run
    bool skips = false;
    for (; last < count && (last == i || lane.which[last] == lane.which[last - 1] + 1); ++last) {
      if (f.begins_with != first_bytes::unwritten) continue;
      auto const merged = merge(last);
      piece.merged_bytes += merged.read;
      if (merged.error != 0) return merged.error;
      if ((skips = !merged.is_written)) break;
    }
    std::uint64_t const from = file_offset(i);
    std::uint64_t const length = std::min<std::uint64_t>((last - i) * file_page, end - from);
    if (last > i) {
      int const error = f.file->write({bytes + i * file_page, length}, from);
      if (error != 0) return error;
      auto const page = piece.bytes.first / file_page + lane.which[i];
      piece.written.push_back({page, page + (last - i)});
      piece.written_bytes += length;
    }
    i = last + (skips ? 1 : 0);
  }
  return 0;
}

}  // namespace

buffer<page_hash> file_transfers::new_hashes(std::uint64_t bytes) {
  if (!hasher_) hasher_.emplace();
  buffer<page_hash> hashes((bytes + file_page - 1) / file_page);
  hashes.fill_zero();
  return hashes;
}

void file_transfers::in_this_thread(std::function<void(file_lane&)> const& work) {
  try {
    device_memory::enter_library_thread(device_);
    work(*lanes_.take());
  } catch (std::exception const&) {  // what is left over counts as failed
  }
}

void file_transfers::in_lanes(std::size_t jobs, std::function<void(file_lane&)> const& work) {
  auto const in_caller = [&] {
    try {
      device_memory::borrowed_thread const gives_back;
      in_this_thread(work);
    } catch (device_error const&) {  // as in_this_thread()
    }
  };
  in_threads(
      std::min<std::size_t>(jobs, threads_), [&] { in_this_thread(work); }, in_caller);
}

int file_transfers::start_read(object const& o, fill_piece const& piece, file_lane& lane,
                               staging_piece& to, bool& is_direct) {
  auto const& f = *o.file;
  auto const [first, last] = piece.bytes;
  std::byte* const device = range_.device_bytes(o.offset + first);
  if (piece.is_at_host) return start_at_host(o, piece, lane, to, is_direct);
  if (piece.source == fill_source::unwritten) {
    constexpr std::uint64_t word = sizeof(std::uint64_t);
    fill_unwritten(lane.on, device, device_memory::rounded_up(last - first, word), f.unwritten_key,
                   (f.offset + first) / word);
    if (auto const rest = piece.last_bytes(o.bytes); rest != 0) {
      std::memset(to.bytes.data(), 0, word);
      int const error = read_last_bytes(o, {to.bytes.data(), rest});
      if (error != 0) return error;
      device_memory::copy_to_device(
          lane.on, std::array{device_memory::pinned_copy{device + (last - first - rest),
                                                         to.bytes.data(), word}});
    }
  } else {
    std::span const bytes(to.bytes.data(), last - first);
    if (int const error = read_piece(f, piece, bytes, is_direct); error != 0) return error;
    device_memory::copy_to_device(
        lane.on, std::array{device_memory::pinned_copy{device, to.bytes.data(), last - first}});
  }
  if (f.known.size() != 0) {
    auto const pages = file_pages_of(piece.bytes);
    hasher_->hash(lane.on, device, pages.end - pages.first, f.known.data() + pages.first);
  }
  to.copied.record(lane.on);
  return 0;
}

// The bytes go to the CPU's side. The device sees them in pinned memory, where it hashes them.
// Managed memory is not read into: O_DIRECT would pin pages that the driver may move.
int file_transfers::start_at_host(object const& o, fill_piece const& piece, file_lane& lane,
                                  staging_piece& to, bool& is_direct) {
  auto const& f = *o.file;
  auto const [first, last] = piece.bytes;
  std::span const target(range_.host_bytes(o.offset + first), last - first);
  if (!o.shows_file()) {
    auto const read = o.is_managed ? std::span(to.bytes.data(), target.size()) : target;
    if (piece.source == fill_source::unwritten) {
      put_unwritten(target, f.unwritten_key, (f.offset + first) / sizeof(std::uint64_t));
      auto const rest = target.last(piece.last_bytes(o.bytes));
      if (int const error = read_last_bytes(o, rest); error != 0) return error;
    } else if (int const error = read_piece(f, piece, read, is_direct); error != 0) {
      return error;
    } else if (o.is_managed) {
      std::ranges::copy(read, target.begin());
    }
  }
  if (f.known.size() != 0) {
    auto const pages = file_pages_of(piece.bytes);
    std::memcpy(to.bytes.data(), target.data(), (pages.end - pages.first) * file_page);
    hasher_->hash(lane.on, to.bytes.data(), pages.end - pages.first, f.known.data() + pages.first);
  }
  to.copied.record(lane.on);
  return 0;
}

void file_transfers::write_changed(object const& o, write_piece& piece, file_lane& lane) {
  auto const& f = *o.file;
  auto const pages = file_pages_of(piece.bytes);
  auto const count = find_changed(o, piece, lane);
  piece.unchanged_pages = pages.end - pages.first - count;
  piece.error = count == 0 ? 0 : write_runs(o, piece, lane, count);
  if (piece.error == 0 && count != 0 && f.known.size() != 0)
    copy_hashes(lane.on, lane.now.data(), pages.end - pages.first, f.known.data() + pages.first);
  lane.on.synchronize();
}

// Puts the numbers of changed pages into lane.which, and the pages into lane.pieces[0].
std::uint32_t file_transfers::find_changed(object const& o, write_piece const& piece,
                                           file_lane& lane) {
  auto const& f = *o.file;
  std::uint64_t const first = piece.bytes.first / file_page;
  std::uint64_t const pages = (piece.bytes.end + file_page - 1) / file_page - first;
  std::byte const* device = range_.device_bytes(o.offset + piece.bytes.first);
  if (piece.is_at_host) {
    // Pinned memory is the device's as well.
    std::memcpy(lane.pieces[1].bytes.data(), range_.host_bytes(o.offset + piece.bytes.first),
                pages * file_page);
    device = lane.pieces[1].bytes.data();
  }
  if (f.known.size() != 0) {
    hasher_->compare(lane.on, device, pages, f.known.data() + first, lane.now.data(),
                     lane.changed.data());
    lane.on.synchronize();
  }
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < pages; ++i) {
    if (f.known.size() == 0 || lane.changed[i] != 0) lane.which[count++] = i;
  }
  gather_pages(lane.on, device, lane.which.data(), count, lane.pieces[0].bytes.data());
  lane.on.synchronize();
  return count;
}

}  // namespace gpufs::shared
