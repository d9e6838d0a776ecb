#include <nvme-host/volume.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include <sys/uio.h>

namespace gpufs::nvme_host {

namespace {

using nvme::direction;

/// Bytes of several places of memory, as one range. It remembers where it was: calls that go
/// forward are fast.
class gather {
 public:
  explicit gather(std::span<::iovec const> parts) : parts_{parts} {}

  /// Copies `count` bytes from place `at` of the range on.
  void copy(std::byte* to, std::uint64_t at, std::uint64_t count) {
    if (at < begin_) part_ = 0, begin_ = 0;
    while (count > 0) {
      while (at >= begin_ + parts_[part_].iov_len) begin_ += parts_[part_++].iov_len;
      std::uint64_t const skip = at - begin_;
      std::uint64_t const here = std::min<std::uint64_t>(count, parts_[part_].iov_len - skip);
      std::memcpy(to, static_cast<std::byte const*>(parts_[part_].iov_base) + skip, here);
      to += here;
      at += here;
      count -= here;
    }
  }

 private:
  std::span<::iovec const> parts_;
  std::size_t part_ = 0;
  std::uint64_t begin_ = 0;  // of parts_[part_]
};

std::uint64_t bytes_of(std::span<::iovec const> parts) {
  std::uint64_t sum = 0;
  for (::iovec const& part : parts) sum += part.iov_len;
  return sum;
}

/// `count` bytes of the parts, behind the first `skip`.
std::vector<::iovec> bytes_within(std::span<::iovec const> parts, std::uint64_t skip,
                                  std::uint64_t count) {
  std::vector<::iovec> all;
  for (::iovec const& part : parts) {
    std::uint64_t const before = std::min<std::uint64_t>(part.iov_len, skip);
    std::uint64_t const here = std::min<std::uint64_t>(part.iov_len - before, count);
    if (here != 0) all.push_back({static_cast<std::byte*>(part.iov_base) + before, here});
    skip -= before;
    count -= here;
  }
  return all;
}

}  // namespace

volume::volume(std::vector<std::unique_ptr<drive>> drives, volume_options const& options)
    : drives_{std::move(drives)}, options_{options} {
  if (drives_.empty() || drives_.size() > most_drives)
    throw std::invalid_argument{"nvme: " + std::to_string(drives_.size()) +
                                " members, 1 to 64 are possible"};
  lba_ = drives_[0]->lba_bytes();
  piece_ = drives_[0]->piece_bytes();
  std::uint64_t least = ~std::uint64_t{0};
  for (auto const& each : drives_) {
    if (each->lba_bytes() != lba_)
      throw std::invalid_argument{"nvme: member " + each->name() + " has blocks of " +
                                  std::to_string(each->lba_bytes()) + " bytes, member " +
                                  drives_[0]->name() + " of " + std::to_string(lba_) +
                                  "; format them alike"};
    piece_ = std::min(piece_, each->piece_bytes());
    least = std::min(least, each->blocks() * lba_);
  }
  bool const alone = drives_.size() == 1 || options_.replicated;
  if (!std::has_single_bit(options_.stripe) || options_.stripe < lba_)
    throw std::invalid_argument{"nvme: stripe=" + std::to_string(options_.stripe) +
                                ": must be a power of two, at least a block of " +
                                std::to_string(lba_) + " bytes"};
  bytes_ = alone ? least : least / options_.stripe * options_.stripe * drives_.size();
  if (bytes_ == 0)
    throw std::invalid_argument{"nvme: the smallest member is smaller than a stripe of " +
                                std::to_string(options_.stripe) + " bytes, use smaller stripes"};
}

// The next replica in turn. If none is, the one that has been out for longest. One whose reset
// another thread waits for comes last, so the others need not wait with it. Those with a bit in
// `without` have failed the call; they are not all. No order is needed: who looks too early sends
// one more read to a drive that fails.
std::uint32_t volume::next_replica(std::uint64_t without) {
  std::uint64_t const turn = turn_.fetch_add(1, std::memory_order_relaxed);
  auto const now = io_clock::now().time_since_epoch().count();
  auto earliest = std::numeric_limits<io_clock::rep>::max();
  std::uint32_t best = 0;
  for (std::uint64_t i = 0; i < drives_.size(); ++i) {
    auto const member = static_cast<std::uint32_t>((turn + i) % drives_.size());
    if ((without >> member & 1) != 0) continue;
    auto const until = drives_[member]->is_resetting()
                           ? std::numeric_limits<io_clock::rep>::max() - 1
                           : out_until_[member].load(std::memory_order_relaxed);
    if (until <= now) return member;
    if (until < earliest) earliest = until, best = member;
  }
  return best;
}

// Commands for a range of whole blocks, by rising place.
std::vector<block_command> volume::plan_of(direction to, std::uint64_t begin, std::uint64_t end,
                                           std::uint64_t without) {
  std::vector<block_command> all;
  bool const striped = !options_.replicated && drives_.size() > 1;
  bool const takes_turns = options_.replicated && to == direction::read;
  bool const to_all = options_.replicated && to == direction::write;
  for (std::uint64_t at = begin; at < end;) {
    std::uint64_t bytes = std::min<std::uint64_t>(end - at, piece_);
    std::uint64_t place = at;
    std::uint64_t member = takes_turns ? next_replica(without) : 0;
    if (striped) {
      std::uint64_t const stripe = at / options_.stripe, within = at % options_.stripe;
      bytes = std::min(bytes, options_.stripe - within);
      place = stripe / drives_.size() * options_.stripe + within;
      member = stripe % drives_.size();
    }
    nvme::block_range const range{place / lba_, static_cast<std::uint32_t>(bytes / lba_)};
    for (std::uint64_t i = 0; i < (to_all ? drives_.size() : 1); ++i)
      all.push_back({static_cast<std::uint32_t>(to_all ? i : member), range, at - begin,
                     static_cast<std::uint32_t>(bytes)});
    at += bytes;
  }
  return all;
}

// Bytes before the command that failed count. The rest is read from replicas that have not failed
// the call yet. Each gets its share of the time, so that one that is silent leaves some to others.
// One that has not answered in its share may be slow: it is reset once it owes an answer for the
// whole time.
std::int64_t volume::read_until(std::span<std::byte> to, std::uint64_t offset,
                                io_clock::time_point end) {
  std::uint64_t const all =
      drives_.size() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << drives_.size()) - 1;
  std::uint64_t done = 0;
  for (std::uint64_t without = options_.replicated ? 0 : all;;) {
    command_run::failure failed;
    auto longest = options_.timeout;
    if (options_.replicated) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(end - io_clock::now()) /
                        std::popcount(all & ~without);
      longest = std::max(std::min(longest, left), std::chrono::milliseconds{1});
    }
    int const error = read_once(to.subspan(done), offset + done, without, longest, failed);
    if (error == 0) return static_cast<std::int64_t>(to.size());
    done += failed.at;
    auto const now = io_clock::now();
    if (options_.replicated) {
      // To ask a silent one takes long.
      auto const out = error == -ETIMEDOUT ? std::max(options_.out_of_turn, options_.timeout)
                                           : options_.out_of_turn;
      out_until_[failed.member].store((now + out).time_since_epoch().count(),
                                      std::memory_order_relaxed);
    }
    without |= std::uint64_t{1} << failed.member;
    if (without == all || now > end) return done > 0 ? static_cast<std::int64_t>(done) : error;
    others_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Returns 0, or an error; then the first `failed.at` bytes are there.
int volume::read_once(std::span<std::byte> to, std::uint64_t offset, std::uint64_t without,
                      std::chrono::milliseconds longest, command_run::failure& failed) {
  std::uint64_t const first = offset / lba_ * lba_;
  std::uint64_t const skip = offset - first;
  std::uint64_t const stop = (offset + to.size() + lba_ - 1) / lba_ * lba_;
  auto const commands = plan_of(direction::read, first, stop, without);
  // A command's first and last bytes may be outside of what is asked for.
  auto const take = [&](block_command const& c, std::byte const* piece) {
    std::uint64_t const begin = std::max(c.at, skip);
    std::uint64_t const last = std::min(c.at + c.bytes, skip + to.size());
    std::memcpy(to.data() + (begin - skip), piece + (begin - c.at), last - begin);
  };
  int const error = command_run{drives_, {longest, options_.timeout}}.transfer(
      direction::read, commands, take, failed);
  failed.at = failed.at > skip ? failed.at - skip : 0;
  return error;
}

std::int64_t volume::read(std::span<std::byte> to, std::uint64_t offset) {
  if (offset >= bytes_ || to.empty()) return 0;
  // A kernel may hand over a read that it gave to a controller, which has stopped since. That may
  // have written to the same memory.
  for (auto const& each : drives_) each->see_stops();
  return read_until(to.first(std::min<std::uint64_t>(to.size(), bytes_ - offset)), offset,
                    io_clock::now() + options_.timeout);
}

// In turns, so that others who want some of the blocks wait for these only.
std::int64_t volume::write(std::span<::iovec const> parts, std::uint64_t offset) {
  std::uint64_t count = bytes_of(parts);
  if (count == 0) return 0;
  if (offset >= bytes_) return -ENOSPC;
  count = std::min(count, bytes_ - offset);
  for (std::uint64_t done = 0; done < count;) {
    std::uint64_t const at = offset + done;
    std::uint64_t const bytes = std::min(count - done, at / lba_ * lba_ + most_locked - at);
    auto const got = write_locked(bytes_within(parts, done, bytes), bytes, at);
    if (got < 0 && done == 0) return got;
    if (got < 0) return static_cast<std::int64_t>(done);
    done += static_cast<std::uint64_t>(got);
    if (static_cast<std::uint64_t>(got) < bytes) return static_cast<std::int64_t>(done);
  }
  return static_cast<std::int64_t>(count);
}

// The blocks stay locked from the read of their other bytes to the end of the write.
std::int64_t volume::write_locked(std::vector<::iovec> whole, std::uint64_t count,
                                  std::uint64_t offset) {
  auto const end = io_clock::now() + options_.timeout;
  std::uint64_t const first = offset / lba_ * lba_;
  std::uint64_t const stop = (offset + count + lba_ - 1) / lba_ * lba_;
  std::uint64_t const head = offset - first, tail = stop - (offset + count);
  std::vector<std::byte> edges(head + tail);
  block_locks::hold const lock{locks_, {first / lba_, stop / lba_ - 1}, end};
  if (!lock) return -ETIMEDOUT;
  auto const complete = [&](std::span<std::byte> bytes, std::uint64_t at) -> std::int64_t {
    if (bytes.empty()) return 0;
    std::int64_t const got = read_until(bytes, at, end);
    return got < 0 ? got : got < static_cast<std::int64_t>(bytes.size()) ? -EIO : 0;
  };
  std::span const all{edges};
  if (auto const error = complete(all.first(head), first); error != 0) return error;
  if (auto const error = complete(all.last(tail), offset + count); error != 0) return error;
  if (head != 0) whole.insert(whole.begin(), {edges.data(), head});
  if (tail != 0) whole.push_back({edges.data() + head, tail});
  gather from{whole};
  auto const commands = plan_of(direction::write, first, stop);
  auto const fill = [&](block_command const& c, std::byte* piece) {
    from.copy(piece, c.at, c.bytes);
  };
  command_run::failure failed;
  int const error = command_run{drives_, {options_.timeout, options_.timeout}}.transfer(
      direction::write, commands, fill, failed);
  if (error == 0) return static_cast<std::int64_t>(count);
  return failed.at > head ? static_cast<std::int64_t>(failed.at - head) : error;
}

int volume::flush() {
  return command_run{drives_, {options_.flush_timeout, options_.timeout}}.flush();
}

}  // namespace gpufs::nvme_host
