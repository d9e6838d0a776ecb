// I/O on shared objects, in pieces: file <-> pinned memory <-> the side that has the newest bytes.
// No byte takes the way over the other side (ADSM, section 4.4).
#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/staging.hpp>
#include <gpufs/owner/io_pieces.hpp>
#include <gpufs/owner/shared_io.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

namespace gpufs {

namespace {

using owner::memory_place;
using owner::or_no_memory;
using owner::piece_pair;
using owner::place_of;
using owner::result_of;
using shared::address_space;
using shared::staging_piece;

std::int64_t write_pieces(address_space& space, owner::transfer_end const& file, std::uint64_t from,
                          std::uint64_t bytes, std::uint64_t& done) {
  piece_pair const pieces(space, bytes);
  auto const piece_size = pieces.size();
  auto const gather = [&](std::uint64_t turn) {
    auto const begin = turn * piece_size;
    if (begin >= bytes) return 0;
    return space.gather(from + begin, pieces[turn], std::min(piece_size, bytes - begin));
  };
  int error = gather(0);
  for (std::uint64_t turn = 0;; ++turn) {
    auto& piece = pieces[turn];
    if (error == 0) error = space.wait_for_copies(piece);
    if (error != 0) return result_of(done, error);
    error = gather(turn + 1);
    auto const wanted = std::min(piece_size, bytes - done);
    auto const put = file.write(piece.bytes.data(), wanted, done);
    if (put < 0) return result_of(done, put);
    done += std::uint64_t(put);
    if (std::uint64_t(put) < wanted || done == bytes) return std::int64_t(done);
  }
}

// `is_staged`: the piece has the bytes, whatever becomes of them.
int copy_piece(address_space& space, memory_place const& to, memory_place const& from,
               std::uint64_t bytes, staging_piece& piece, bool& is_staged) try {
  is_staged = false;
  if (int const error = space.wait_for_copies(piece); error != 0) return error;
  if (from.plain != nullptr)
    std::memcpy(piece.bytes.data(), from.plain, bytes);
  else if (int const error = space.gather(from.at, piece, bytes); error != 0)
    return error;
  if (to.plain == nullptr) {
    // The copy to the device is behind the one from it only if that one has ended.
    int const error = from.plain == nullptr ? space.wait_for_copies(piece) : 0;
    is_staged = error == 0;
    return error != 0 ? error : space.scatter(to.at, piece, bytes);
  }
  if (int const error = space.wait_for_copies(piece); error != 0) return error;
  std::memcpy(to.plain, piece.bytes.data(), bytes);
  return 0;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

}  // namespace

std::int64_t owner::descriptor::read(void* to, std::uint64_t bytes, std::uint64_t done) const {
  auto const n = offset_ ? ::pread(fd_, to, bytes, off_t(*offset_ + done)) : ::read(fd_, to, bytes);
  return n < 0 ? -errno : n;
}

std::int64_t owner::descriptor::write(void const* from, std::uint64_t bytes,
                                      std::uint64_t done) const {
  auto const n =
      offset_ ? ::pwrite(fd_, from, bytes, off_t(*offset_ + done)) : ::write(fd_, from, bytes);
  return n < 0 ? -errno : n;
}

bool owner::descriptor::may_give_less() const {
  struct stat status {};
  return ::fstat(fd_, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode));
}

std::int64_t owner::write_from(address_space& space, transfer_end const& file, void const* from,
                               std::uint64_t bytes) {
  bytes = std::min(bytes, std::uint64_t(most_io_bytes));
  auto const where = place_of(space, from, bytes);
  if (!where) return -EFAULT;
  if (where->plain != nullptr || bytes == 0) return file.write(from, bytes, 0);
  return or_no_memory(
      [&](std::uint64_t& done) { return write_pieces(space, file, where->at, bytes, done); });
}

// Moving the position and reading it is one system call. So nobody who shares the descriptor reads
// the same bytes, as with read(2).
std::unique_ptr<owner::transfer_end> owner::descriptor::claim(std::uint64_t bytes) const {
  if (may_give_less()) return nullptr;
  if (offset_) return std::make_unique<descriptor>(fd_, offset_);
  auto part = std::make_unique<descriptor>(fd_, 0);
  auto const end = ::lseek(fd_, off_t(bytes), SEEK_CUR);
  if (end < 0) return nullptr;
  part->offset_ = std::uint64_t(end) - bytes;
  return part;
}

void owner::descriptor::give_back(std::uint64_t bytes) const {
  if (!offset_ && bytes != 0) ::lseek(fd_, -off_t(bytes), SEEK_CUR);
}

std::int64_t shared_memory::read(int fd, void* to, std::uint64_t bytes) {
  return owner::read_to(*space_, owner::descriptor(fd, {}), to, bytes);
}

std::int64_t shared_memory::pread(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) {
  return owner::read_to(*space_, owner::descriptor(fd, offset), to, bytes);
}

std::int64_t shared_memory::write(int fd, void const* from, std::uint64_t bytes) {
  return owner::write_from(*space_, owner::descriptor(fd, {}), from, bytes);
}

std::int64_t shared_memory::pwrite(int fd, void const* from, std::uint64_t bytes,
                                   std::uint64_t offset) {
  return owner::write_from(*space_, owner::descriptor(fd, offset), from, bytes);
}

int shared_memory::copy(void* to, void const* from, std::uint64_t bytes) {
  return owner::copy(*space_, to, from, bytes);
}

int shared_memory::set(void* to, int value, std::uint64_t bytes) {
  return owner::set(*space_, to, value, bytes);
}

int owner::copy(address_space& space, void* to, void const* from, std::uint64_t bytes,
                true_move by_touch) {
  auto const target = place_of(space, to, bytes), source = place_of(space, from, bytes);
  if (!target || !source) return -EFAULT;
  if (bytes == 0) return 0;
  if (target->plain != nullptr && source->plain != nullptr) {
    std::memmove(to, from, bytes);
    return 0;
  }
  // Where they overlap, the end first, if its bytes would be overwritten otherwise.
  bool const is_backward =
      target->plain == nullptr && source->plain == nullptr && target->at > source->at;
  return int(or_no_memory([&](std::uint64_t&) -> std::int64_t {
    piece_pair const pieces(space, bytes);
    auto const piece_size = pieces.size();
    std::uint64_t const count = (bytes + piece_size - 1) / piece_size;
    for (std::uint64_t turn = 0; turn < count; ++turn) {
      auto const begin = (is_backward ? count - 1 - turn : turn) * piece_size;
      auto const length = std::min(piece_size, bytes - begin);
      auto& piece = pieces[turn];
      bool is_staged = false;
      int const error =
          copy_piece(space, target->behind(begin), source->behind(begin), length, piece, is_staged);
      if (error == 0) continue;
      if (by_touch == nullptr) return error;
      // The target may have a part of them already, in place of the source.
      by_touch(static_cast<std::byte*>(to) + begin,
               is_staged ? piece.bytes.data() : static_cast<std::byte const*>(from) + begin,
               length);
    }
    return 0;
  }));
}

int owner::set(address_space& space, void* to, int value, std::uint64_t bytes) {
  auto const target = place_of(space, to, bytes);
  if (!target) return -EFAULT;
  if (bytes == 0) return 0;
  if (target->plain != nullptr) {
    std::memset(to, value, bytes);
    return 0;
  }
  return int(or_no_memory([&](std::uint64_t&) -> std::int64_t {
    piece_pair const pieces(space, bytes);
    auto const piece_size = pieces.size();
    auto& piece = pieces[0];
    std::memset(piece.bytes.data(), value, std::min(piece_size, bytes));
    for (std::uint64_t done = 0; done < bytes; done += piece_size) {
      int const error = space.scatter(target->at + done, piece, std::min(piece_size, bytes - done));
      if (error != 0) return error;
    }
    return 0;
  }));
}

}  // namespace gpufs
