// The ways of the bytes of a read: through the OS page cache or past it, then pulled or copied to
// the twin.
#include <host-daemon/serve/worker.hpp>

#include <algorithm>
#include <cerrno>

namespace gpufs::daemon {

read_operation worker::plan_read(job& j, std::uint64_t offset, std::uint64_t length) noexcept {
  auto* const to = j.request.region().staging + j.request.staging + j.done;
  if (j.direct) {
    auto const unit = rpc::staging_unit;
    auto const end = std::min((j.request.staging + j.request.length + unit - 1) / unit * unit,
                              j.request.region().staging_bytes);
    j.is_direct = j.widened.plan(j.file->past_cache->alignment(), offset, length, to,
                                 end - j.request.staging - j.done);
    if (j.is_direct)
      return {.from = &j.file->direct,
              .offset = j.widened.offset(),
              .length = j.widened.length(),
              .to = j.widened.to(),
              .cookie = j.index};
  }
  return {.from = &j.file->buffered,
          .offset = offset,
          .length = std::uint32_t(length),
          .to = to,
          .cookie = j.index};
}

// Takes in the result of a direct read. Returns false if it says nothing and a buffered read must
// tell.
bool worker::absorb_direct(job& j, std::int64_t& result) noexcept {
  j.is_direct = false;
  if (result == -EINVAL || result == -EOPNOTSUPP) {
    paths_.refused(*j.file, int(-result));
    j.direct = false;
    return false;
  }
  if (result < 0) return true;
  // A short read is the end of the file, or was once. A buffered read finds where it lies and what
  // comes behind it, as it may begin anywhere.
  if (std::uint64_t(result) < j.widened.length()) j.direct = false;
  result = j.widened.finish(std::uint64_t(result));
  count(j.request.from->counters.bytes_direct, std::uint64_t(result));
  return result > 0;
}

// Hands the bytes over for a copy to GPU memory, if they go that way. Then end_transfers() answers
// the request.
bool worker::begin_transfer(job& j) noexcept {
  auto* const transfers = j.request.from->shared.transfers;
  if (transfers == nullptr || j.done < transfer_engine::shortest) return false;
  if (!transfers->hand_over(j.request.channel, j.request.staging, j.done)) return false;
  j.handed_over = transfer_engine::clock::now();
  transferring_.push_back(&j);
  return true;
}

// Offers the windows of a read to the window thread, if the file is not written.
void worker::offer_windows(job const& j) noexcept {
  auto& windows = *j.request.from->shared.windows;
  if (auto const version = version_to_register(j.request.region(), j.request.file, windows.which());
      version != 0)
    windows.touched(version, j.file->host, j.request.offset, j.request.length);
}

bool worker::end_transfers(bool give_up) noexcept {
  if (transferring_.empty()) return false;
  auto const now =
      give_up ? transfer_engine::clock::time_point::max() : transfer_engine::clock::now();
  std::size_t left = 0;
  for (auto* const j : transferring_) {
    auto const& from = *j->request.from;
    auto const outcome = from.shared.transfers->settle(j->request.channel, j->handed_over, now);
    if (outcome == transfer_engine::outcome::pending) {
      transferring_[left++] = j;
      continue;
    }
    bool const in_twin = outcome == transfer_engine::outcome::copied;
    if (in_twin) count(j->request.from->counters.bytes_copied, j->done);
    finish(*j, rpc::read_result(std::uint32_t(j->done), in_twin));
  }
  bool const any = left != transferring_.size();
  transferring_.resize(left);
  return any;
}

}  // namespace gpufs::daemon
