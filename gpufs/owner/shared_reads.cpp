// Files, pipes and streams are read into shared objects.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/library_threads.hpp>
#include <gpufs/owner/io_pieces.hpp>
#include <gpufs/owner/shared_io.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <new>

namespace gpufs {

namespace {

using owner::piece_pair;
using owner::result_of;
using shared::address_space;
using shared::staging_piece;

/// Memory for what scatter() keeps of pieces, taken before they are read and given up if it finds
/// no other. Blocks have 4 KiB at least, and each may be in a list, a map and several runs.
class scatter_reserve {
 public:
  explicit scatter_reserve(std::uint64_t bytes) : bytes_((bytes / 4096 + 2) * 256) { renew(); }
  /// Takes it again if it was given up.
  void renew() {
    if (memory_ != nullptr) return;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
    *static_cast<std::byte volatile*>(memory_.get()) =
        std::byte{0};  // else a compiler leaves it out
  }
  int put(address_space& space, std::uint64_t to, staging_piece& from, std::uint64_t bytes) {
    for (;;) {
      int error = -ENOMEM;
      try {
        error = space.scatter(to, from, bytes);
      } catch (std::bad_alloc const&) {
      }
      if (error != -ENOMEM || memory_ == nullptr) return error;
      memory_.reset();
    }
  }

 private:
  std::uint64_t const bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Reads [done, done + wanted) of a transfer to its place in an object. Returns the number of
/// bytes, or -errno if there are none.
std::int64_t read_piece(address_space& space, owner::transfer_end const& file, std::uint64_t to,
                        std::uint64_t wanted, std::uint64_t done, staging_piece& piece,
                        scatter_reserve& reserve) {
  if (int const error = space.wait_for_copies(piece); error != 0) return error;
  // First, as bytes that were read and cannot be put there would be lost.
  if (int const error = space.make_ready(to + done, wanted); error != 0) return error;
  reserve.renew();
  auto const got = file.read(piece.bytes.data(), wanted, done);
  if (got <= 0) return got;
  int const error = reserve.put(space, to + done, piece, std::uint64_t(got));
  return error != 0 ? error : got;
}

// `done`: the bytes of pieces that are in place, also if it throws. Bytes that a pipe has given
// cannot be had again. So all pieces before an error count.
std::int64_t read_pieces(address_space& space, owner::transfer_end const& file, std::uint64_t to,
                         std::uint64_t bytes, std::uint64_t& done) {
  // A message of a socket comes by one call, or its rest is lost.
  bool const comes_at_once = bytes > staging_piece::small_size && file.may_give_less();
  piece_pair const pieces(space, comes_at_once ? staging_piece::size : bytes);
  if (comes_at_once) bytes = std::min(bytes, pieces.size());
  scatter_reserve reserve(pieces.size());
  for (std::uint64_t turn = 0; done < bytes; ++turn) {
    auto const wanted = std::min(pieces.size(), bytes - done);
    auto const got = read_piece(space, file, to, wanted, done, pieces[turn], reserve);
    if (got <= 0) return result_of(done, got);
    done += std::uint64_t(got);
    if (std::uint64_t(got) < wanted) break;
  }
  return std::int64_t(done);
}

/// Threads read the pieces of one transfer. What comes behind the first piece that is not whole
/// does not count, as with one thread.
class parallel_read {
 public:
  static constexpr std::uint64_t piece_size = staging_piece::size;
  /// Fewer bytes are read by one thread sooner than threads are made.
  static constexpr std::uint64_t least = 8 * piece_size;

  parallel_read(address_space& space, owner::transfer_end const& file, std::uint64_t to,
                std::uint64_t bytes)
      : space_(space), file_(file), to_(to), bytes_(bytes) {}

  /// The bytes that are in place from the begin on. The rest, or its error, is left to the caller.
  std::uint64_t run(std::size_t threads) {
    shared::in_threads(
        threads, [this] { read_some(); }, [] {});
    return std::min(end_.load(std::memory_order_relaxed), next_.load(std::memory_order_relaxed));
  }

 private:
  // The pieces that other threads have taken are not this thread's to wait for.
  void read_some() noexcept {
    std::uint64_t at = bytes_;
    try {
      piece_pair const pieces(space_, bytes_);
      scatter_reserve reserve(piece_size);
      for (std::uint64_t turn = 0;; ++turn) {
        // Relaxed: each number is given once, and bytes are passed on by the thread's end.
        at = next_.fetch_add(piece_size, std::memory_order_relaxed);
        if (at >= end_.load(std::memory_order_relaxed)) return;
        auto const wanted = std::min(piece_size, bytes_ - at);
        auto const got = read_piece(space_, file_, to_, wanted, at, pieces[turn], reserve);
        if (got != std::int64_t(wanted))
          return end_at(at + std::uint64_t(std::max(got, std::int64_t{0})));
      }
    } catch (std::exception const&) {
      end_at(at);
    }
  }

  void end_at(std::uint64_t at) noexcept {
    auto now = end_.load(std::memory_order_relaxed);
    while (at < now && !end_.compare_exchange_weak(now, at, std::memory_order_relaxed)) {
    }
  }

  address_space& space_;
  owner::transfer_end const& file_;
  std::uint64_t const to_, bytes_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> end_{bytes_};  ///< no piece from here on counts
};

}  // namespace

std::int64_t owner::read_to(address_space& space, transfer_end const& file, void* to,
                            std::uint64_t bytes) {
  bytes = std::min(bytes, std::uint64_t(most_io_bytes));
  auto const where = place_of(space, to, bytes);
  if (!where) return -EFAULT;
  if (where->plain != nullptr || bytes == 0) return file.read(to, bytes, 0);
  if (bytes >= parallel_read::least) {
    if (auto const part = file.claim(bytes)) {
      auto const result = or_no_memory([&](std::uint64_t& done) {
        done = parallel_read(space, *part, where->at, bytes).run(space.io_threads());
        return read_pieces(space, *part, where->at, bytes, done);
      });
      file.give_back(bytes - std::uint64_t(std::max(result, std::int64_t{0})));
      return result;
    }
  }
  return or_no_memory(
      [&](std::uint64_t& done) { return read_pieces(space, file, where->at, bytes, done); });
}

}  // namespace gpufs
