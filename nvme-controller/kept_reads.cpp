#include <liburing.h>
#include <nvme-controller/kept_reads.hpp>

#include <cerrno>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/uio.h>

namespace gpufs::nvme_controller {

namespace {

constexpr unsigned most_reads = 256;

}  // namespace

struct kept_reads::ring {
  struct slot {
    command of;
    std::uint64_t bytes = 0;
    std::vector<::iovec> parts;
    std::shared_ptr<range_table const> memory;  // stays mapped meanwhile
  };

  ring() {
    for (std::uint32_t i = most_reads; i > 0; --i) free.push_back(i - 1);
    if (int const error = ::io_uring_queue_init(most_reads, &of_kernel, 0); error < 0)
      throw std::system_error{-error, std::generic_category(), "nvme: io_uring"};
  }
  ~ring() { ::io_uring_queue_exit(&of_kernel); }

  [[nodiscard]] std::size_t count() const { return slots.size() - free.size(); }

  void end(std::uint32_t number, bool complete, receiver const& to) {
    slot& done = slots[number];
    command const of = done.of;
    done.memory.reset();
    free.push_back(number);
    if (to) to(of, complete);
  }

  /// Returns false if the kernel takes nothing more, ever.
  [[nodiscard]] bool send() {
    while (!unsent.empty()) {
      int const sent = ::io_uring_submit(&of_kernel);
      if (sent == -EINTR) continue;
      if (sent == -EAGAIN || sent == -EBUSY || sent == 0) return true;  // with the next pass
      if (sent < 0) return false;
      unsent.erase(unsent.begin(), unsent.begin() + sent);
    }
    return true;
  }

  ::io_uring of_kernel{};
  std::vector<slot> slots{most_reads};
  std::vector<std::uint32_t> free;
  std::deque<std::uint32_t> unsent;  // in the order of the ring
};

kept_reads::kept_reads() = default;
kept_reads::~kept_reads() { finish({}); }

std::size_t kept_reads::count() const { return ring_ == nullptr ? 0 : ring_->count(); }

bool kept_reads::start(int fd, std::uint64_t offset, std::span<segment const> to, command const& of,
                       std::shared_ptr<range_table const> memory) {
  if (refused_) return false;
  if (ring_ == nullptr) {
    try {
      ring_ = std::make_unique<ring>();
    } catch (std::system_error const&) {
      refused_ = true;
      return false;
    }
  }
  if (ring_->free.empty()) return false;
  std::uint32_t const number = ring_->free.back();
  auto& mine = ring_->slots[number];
  mine.of = of;
  mine.bytes = 0;
  mine.parts.clear();
  for (segment const& part : to) {
    mine.parts.push_back({part.memory, part.bytes});
    mine.bytes += part.bytes;
  }
  ring_->unsent.push_back(number);
  // Nothing throws from here on: an entry of the ring that is taken has to be filled.
  ::io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_->of_kernel);
  if (entry == nullptr) {
    ring_->unsent.pop_back();
    return false;
  }
  ring_->free.pop_back();
  mine.memory = std::move(memory);
  ::io_uring_prep_readv(entry, fd, mine.parts.data(), static_cast<unsigned>(mine.parts.size()),
                        offset);
  ::io_uring_sqe_set_data64(entry, number);
  return true;
}

bool kept_reads::collect(receiver const& to) {
  if (ring_ == nullptr) return false;
  bool ended = false;
  if (!refused_) refused_ = !ring_->send();
  // What the kernel has not taken then it never will, as nothing is sent any more.
  while (refused_ && !ring_->unsent.empty()) {
    auto const number = ring_->unsent.front();
    ring_->unsent.pop_front();
    ring_->end(number, false, to);
    ended = true;
  }
  for (::io_uring_cqe* done = nullptr; ::io_uring_peek_cqe(&ring_->of_kernel, &done) == 0;) {
    auto const number = static_cast<std::uint32_t>(::io_uring_cqe_get_data64(done));
    bool const complete =
        done->res >= 0 && static_cast<std::uint64_t>(done->res) == ring_->slots[number].bytes;
    ::io_uring_cqe_seen(&ring_->of_kernel, done);
    ring_->end(number, complete, to);
    ended = true;
  }
  return ended;
}

void kept_reads::finish(receiver const& to) {
  while (count() > 0)
    if (!collect(to)) std::this_thread::yield();
}

}  // namespace gpufs::nvme_controller
