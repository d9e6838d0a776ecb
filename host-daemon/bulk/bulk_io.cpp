// Bulk calls: their checks, their engines, and writes.
#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/bulk/bulk_lane.hpp>
#include <host-daemon/engine/pread_engine.hpp>
#include <host-daemon/engine/uring_engine.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <sys/uio.h>

namespace gpufs::daemon {

namespace {

constexpr std::size_t most_idle = 8;
constexpr std::uint64_t longest_write = std::uint64_t(1) << 30;

// Sets the results of all ranges to an error, and returns it.
int fail(std::span<bulk_range> ranges, int error) noexcept {
  for (auto& r : ranges) r.result = error;
  return error;
}

// Returns 0 if all ranges lie within the memory and end at or before `end` in the file. Else
// -EINVAL, or `too_far`.
int check(std::span<bulk_range const> ranges, std::uint64_t memory, std::uint64_t end,
          int too_far) noexcept {
  for (auto const& r : ranges) {
    if (r.length > memory || r.position > memory - r.length) return -EINVAL;
    if (r.offset > end || r.length > end - r.offset) return too_far;
  }
  return 0;
}

// A file that is written, and where the writes are recorded.
struct recorded_file {
  stored_file const& file;
  request_recorder* requests;

  std::int64_t write(std::byte* from, std::uint64_t bytes, std::uint64_t offset) const noexcept {
    ::iovec const part{from, bytes};
    auto const begin = std::chrono::steady_clock::now();
    auto const n = while_interrupted([&] { return file.write({&part, 1}, offset); });
    if (requests != nullptr)
      requests->record({.kind = host_request::write,
                        .path = "host",
                        .offset = offset,
                        .length = bytes,
                        .result = n,
                        .begin = begin,
                        .end = std::chrono::steady_clock::now()},
                       file);
    return n;
  }
};

// Writes one part and notes its outcome. Returns whether any byte was written.
bool write_part(recorded_file const& file, bulk_parts& parts, bulk_parts::part const& p,
                std::byte* from) noexcept {
  std::uint64_t done = 0;
  std::int32_t error = 0;
  while (done < p.length && error == 0) {
    auto const n = file.write(from + done, p.length - done, parts.offset_of(p) + done);
    if (n > 0) done += std::uint64_t(n);
    if (n == 0) error = -EIO;
    if (n < 0) error = std::int32_t(n);
  }
  parts.end(p, done, error);
  return done != 0;
}

// Writes all parts from device memory. While one is written, the device copies others.
bool write_from_device(recorded_file const& file, bulk_parts& parts, bulk_memory const& from,
                       std::span<bulk_parts::part> under_way) noexcept {
  auto& copier = *from.copier;
  bool any = false;
  std::uint64_t started = 0, ended = 0;
  idle_policy idle;
  while (parts.more() || started != ended) {
    while (parts.more() && started - ended < under_way.size()) {
      auto const n = unsigned(started % under_way.size());
      auto& p = under_way[n] = parts.next();
      if (copier.start(device_copier::direction::to_host, n, from.device + parts.position_of(p),
                       p.length))
        ++started;
      else
        parts.end(p, 0, -EIO);
    }
    if (started == ended) continue;
    auto const n = unsigned(ended % under_way.size());  // the oldest one
    auto const state = copier.look(n);
    if (state == device_copier::state::under_way) {
      if (auto const time = idle.next(); time.count() > 0) idle_policy::sleep(time);
      continue;
    }
    idle.reset();
    ++ended;
    if (state != device_copier::state::copied)
      parts.end(under_way[n], 0, -EIO);
    else if (!parts.is_cut_off(under_way[n]))
      any |= write_part(file, parts, under_way[n], copier.part(n).data());
  }
  return any;
}

// Nothing is asked for behind the end of a file: an O_DIRECT read may write zeros there, and the
// memory may have no room for them. Some files of the system have bytes, and the size 0.
std::uint64_t end_of(stored_file const& file) noexcept {
  struct ::stat status {};
  bool const is_known = file.status(status) == 0 && status.st_size > 0;
  return is_known ? std::uint64_t(status.st_size) : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

/// A lane for the time of a call.
class bulk_io::lane_lease {
 public:
  lane_lease(bulk_io& from, bool deep) : from_{from}, lane_{from.take_lane(deep)} {}
  ~lane_lease() { from_.return_lane(std::move(lane_)); }
  lane_lease(lane_lease const&) = delete;
  lane_lease& operator=(lane_lease const&) = delete;
  lane* operator->() const noexcept { return lane_.get(); }

 private:
  bulk_io& from_;
  std::unique_ptr<lane> lane_;
};

bulk_io::bulk_io(file_registry& files, bulk_settings settings)
    : files_{files}, settings_{std::move(settings)} {
  idle_.reserve(most_idle);
}

bulk_io::~bulk_io() = default;

int bulk_io::read(std::int32_t descriptor, std::span<bulk_range> ranges,
                  bulk_memory const& to) noexcept {
  constexpr std::uint64_t end = std::numeric_limits<std::int64_t>::max();
  if (int const error = check(ranges, to.bytes, end, -EINVAL)) return fail(ranges, error);
  local_file file;
  file.host = files_.borrow(descriptor);
  if (!file.host) return fail(ranges, -EBADF);
  file.descriptor = descriptor;
  file.begin();
  try {
    bool const deep = ranges.size() > 1 || (!ranges.empty() && ranges[0].length > part_bytes);
    return lane_lease { *this, deep } -> read(file, ranges, to, end_of(*file.host));
  } catch (std::bad_alloc const&) {
    return fail(ranges, -ENOMEM);
  }
}

int bulk_io::write(std::int32_t descriptor, std::span<bulk_range> ranges,
                   bulk_memory const& from) noexcept {
  if (int const error = check(ranges, from.bytes, rpc::payload_mask + 1, -EFBIG))
    return fail(ranges, error);
  try {
    auto* const copier = from.copier;
    bulk_parts parts{ranges,
                     copier != nullptr ? std::uint64_t(copier->part(0).size()) : longest_write};
    std::vector<bulk_parts::part> under_way(copier != nullptr ? copier->parts() : 0);
    int const refused = files_.write(descriptor, [&](stored_file const& host) {
      recorded_file const file{host, settings_.requests};
      if (copier != nullptr) return write_from_device(file, parts, from, under_way);
      bool any = false;
      while (parts.more()) {
        auto const p = parts.next();
        any |= write_part(file, parts, p, from.host + parts.position_of(p));
      }
      return any;
    });
    return refused != 0 ? fail(ranges, refused) : parts.set_results();
  } catch (std::bad_alloc const&) {
    return fail(ranges, -ENOMEM);
  }
}

// `deep`: with a ring, if the kernel gives one.
std::unique_ptr<bulk_io::lane> bulk_io::take_lane(bool deep) {
  if (deep && settings_.backend != io_backend::pread) {
    {
      std::lock_guard const lock{mutex_};
      if (!idle_.empty()) {
        auto used = std::move(idle_.back());
        idle_.pop_back();
        return used;
      }
    }
    try {
      return std::make_unique<lane>(
          std::make_unique<uring_engine>(settings_.queue_depth, std::vector<std::span<std::byte>>{},
                                         settings_.hooks, nullptr, ring_users::any),
          path_choice{settings_.path, settings_.hooks, notes_}, settings_.requests, true);
    } catch (std::system_error const&) {  // then one part after the other
    }
  }
  return std::make_unique<lane>(std::make_unique<pread_engine>(),
                                path_choice{settings_.path, settings_.hooks, notes_},
                                settings_.requests, false);
}

void bulk_io::return_lane(std::unique_ptr<lane> used) noexcept {
  if (!used->has_ring) return;
  std::lock_guard const lock{mutex_};
  if (idle_.size() < most_idle) idle_.push_back(std::move(used));
}

}  // namespace gpufs::daemon
