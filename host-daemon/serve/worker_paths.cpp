// The ways of the bytes that were read: pulled from staging or copied to the twin. And the windows
// that are offered.
#include <host-daemon/serve/worker.hpp>

#include <algorithm>

namespace gpufs::daemon {

// Hands the bytes over for a copy to GPU memory, if they go that way. Then end_transfers() answers
// the request.
bool worker::begin_transfer(job& j) noexcept {
  auto* const transfers = j.request.from->shared.transfers;
  if (transfers == nullptr || j.read.done() < transfer_engine::shortest) return false;
  if (!transfers->hand_over(j.request.channel, j.request.staging, j.read.done())) return false;
  j.handed_over = transfer_engine::clock::now();
  transferring_.push_back(&j);
  return true;
}

// Tells the window thread what is read, if the file is not written.
void worker::offer_windows(job const& j) noexcept {
  auto const& r = j.request;
  auto& windows = *r.from->shared.windows;
  auto const file = may_register(r.region(), r.file, windows.which());
  if (file.version == 0) return;
  if (file.at_once) return windows.touched(file.version, j.file->host, r.offset, r.length);
  if (is_random(r.length, (r.flags & rpc::read_is_chunk) != 0))
    windows.read_at_random(file.version, j.file->host, r.offset, r.length,
                           (r.flags & rpc::read_for_elements) != 0);
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
    if (in_twin) {
      count(j->request.from->counters.bytes_copied, j->read.done());
      requests_.record({.kind = host_request::copy,
                        .path = "dma",
                        .offset = j->request.offset,
                        .length = j->read.done(),
                        .result = std::int64_t(j->read.done()),
                        .begin = j->handed_over,
                        .end = std::max(now, j->handed_over)},
                       *j->file->host);
    }
    finish(*j, rpc::read_result(std::uint32_t(j->read.done()), in_twin));
  }
  bool const any = left != transferring_.size();
  transferring_.resize(left);
  return any;
}

}  // namespace gpufs::daemon
