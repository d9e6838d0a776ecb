// The hand-over of transfers, and the thread that carries them out.
#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/thread.hpp>
#include <host-daemon/device_work/transfer_engine.hpp>

#include <algorithm>

namespace gpufs::daemon {

namespace {

// More copies or bytes in a batch gain nothing, and the first of them would wait longer for the
// last.
constexpr std::size_t most_pieces = 128;
constexpr std::uint64_t most_bytes = 8 << 20;

// Joins ranges that lie side by side.
void join_neighbours(std::vector<copy_range>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](auto const& a, auto const& b) { return a.offset < b.offset; });
  auto last = ranges.begin();
  for (auto r = ranges.begin() + 1; r != ranges.end(); ++r) {
    if (last->offset + last->bytes == r->offset) {
      last->bytes += r->bytes;
    } else {
      *++last = *r;
    }
  }
  ranges.erase(last + 1, ranges.end());
}

}  // namespace

transfer_engine::transfer_engine(std::unique_ptr<twin_copier> copier, std::uint64_t channels,
                                 std::chrono::milliseconds limit, fault_injector* faults)
    : copier_{std::move(copier)},
      limit_{limit},
      faults_{faults},
      pieces_(channels),
      batches_(copier_->depth()) {
  for (auto& b : batches_) b.reserve(most_pieces);
  ranges_.reserve(most_pieces);
  thread_ = start_thread("set another io_path than dma", [this] { serve(); });
}

transfer_engine::~transfer_engine() {
  stop_.store(true, std::memory_order_release);  // pairs with the acquire in serve()
  thread_.join();
}

bool transfer_engine::hand_over(std::uint32_t channel, std::uint64_t offset,
                                std::uint64_t bytes) noexcept {
  if (refused_.load(std::memory_order_relaxed)) return false;
  if (stuck_since(clock::time_point::min(), clock::now())) return false;
  auto& p = pieces_[channel];
  // One operation: a wild store may make two threads serve requests of one channel, and a piece
  // that came twice into the list would close it to a circle.
  // Acquire pairs with the release of the thread that let go of it: the last copy to this piece of
  // the twin is over.
  auto free = phase::idle;
  if (!p.state.compare_exchange_strong(free, phase::offered, std::memory_order_acquire,
                                       std::memory_order_relaxed))
    return false;
  p.offset = offset;
  p.bytes = bytes;
  p.next = offers_.load(std::memory_order_relaxed);
  // Release pairs with the acquire in take_offers(): the thread that finds the piece sees its
  // fields and the bytes in staging. Only that thread takes pieces out, and it takes all at once.
  // So no piece can come back meanwhile.
  while (!offers_.compare_exchange_weak(p.next, &p, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  return true;
}

// Returns whether for longer than the limit there was no progress and no copy that began after
// `since`.
bool transfer_engine::stuck_since(clock::time_point since, clock::time_point now) const noexcept {
  clock::time_point const progress{
      clock::duration{progress_.load(std::memory_order_relaxed)}};  // orders nothing
  if (progress == clock::time_point{} && since == clock::time_point::min())
    return false;  // nothing under way
  return now - std::max(since, progress) > limit_;
}

transfer_engine::outcome transfer_engine::settle(std::uint32_t channel, clock::time_point since,
                                                 clock::time_point now) noexcept {
  auto& p = pieces_[channel];
  bool const give_up = now == clock::time_point::max();
  auto seen = p.state.load(std::memory_order_acquire);
  if (seen == phase::offered || seen == phase::claimed) {
    if (!give_up && !refused_.load(std::memory_order_relaxed) && !stuck_since(since, now))
      return outcome::pending;
    // From now on the piece is the thread's. If the exchange fails, the thread has gone a step
    // further.
    while (seen == phase::offered || seen == phase::claimed) {
      auto const left = seen == phase::offered ? phase::withdrawn : phase::abandoned;
      if (p.state.compare_exchange_weak(seen, left, std::memory_order_acq_rel,
                                        std::memory_order_acquire))
        return outcome::none;
    }
  }
  // Pairs with the release in end_pieces(): the copy is over. A caller that learns this from the
  // answer's release store sees its bytes.
  p.state.store(phase::idle, std::memory_order_relaxed);
  return seen == phase::copied ? outcome::copied : outcome::none;
}

void transfer_engine::serve() noexcept {
  set_up_thread("gpufs-copy", rest_precision::fine);
  idle_policy idle;
  for (;;) {
    take_offers();
    bool const started = start_batch();
    bool const ended = end_batch();
    if (started || ended) {
      idle.reset();
      continue;
    }
    // Pairs with the release in the destructor. The threads that hand over have ended, so no offer
    // comes after this look.
    if (started_ == ended_ && first_waiting_ == nullptr && stop_.load(std::memory_order_acquire))
      return;
    if (auto const time = idle.next(); time.count() > 0) idle_policy::sleep(time);
  }
}

// Moves the offers behind the pieces that wait, oldest first.
void transfer_engine::take_offers() noexcept {
  if (offers_.load(std::memory_order_relaxed) == nullptr) return;
  auto* p = offers_.exchange(nullptr,
                             std::memory_order_acquire);  // pairs with the release in hand_over()
  auto* const newest = p;
  piece* oldest = nullptr;
  while (p != nullptr) {
    auto* const older = p->next;
    p->next = oldest;
    oldest = p;
    p = older;
  }
  (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = oldest;
  last_waiting_ = newest;
}

// Claims the oldest piece that waits. Null: none waits. Lets go of those that were withdrawn.
transfer_engine::piece* transfer_engine::next_waiting() noexcept {
  while (first_waiting_ != nullptr) {
    auto* const p = first_waiting_;
    first_waiting_ = p->next;
    auto seen = phase::offered;
    if (p->state.compare_exchange_strong(seen, phase::claimed, std::memory_order_relaxed)) return p;
    p->state.store(phase::idle,
                   std::memory_order_release);  // pairs with the acquire in hand_over()
  }
  return nullptr;
}

// Starts a copy of as many waiting pieces as fit a batch.
bool transfer_engine::start_batch() noexcept {
  if (first_waiting_ == nullptr || started_ - ended_ == batches_.size()) return false;
  auto& b = batches_[started_ % batches_.size()];
  b.clear();
  ranges_.clear();
  for (std::uint64_t bytes = 0; b.size() < most_pieces && bytes < most_bytes;) {
    auto* const p = next_waiting();
    if (p == nullptr) break;
    b.push_back(p);
    ranges_.push_back({p->offset, p->bytes});
    bytes += p->bytes;
  }
  if (b.empty()) return true;
  join_neighbours(ranges_);
  // Before the device is called, as the thread may stay in that call.
  if (started_ == ended_)
    progress_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  if (faults_ != nullptr) faults_->before_copy();
  if (!refused_.load(std::memory_order_relaxed) && copier_->start(ranges_)) {
    ++started_;
    return true;
  }
  refused_.store(true, std::memory_order_relaxed);
  if (started_ == ended_) progress_.store(0, std::memory_order_relaxed);
  end_pieces(b, false);
  return true;
}

bool transfer_engine::end_batch() noexcept {
  if (started_ == ended_) return false;
  auto const now = copier_->look_at_oldest();
  if (now == twin_copier::state::under_way) return false;
  if (now == twin_copier::state::failed) refused_.store(true, std::memory_order_relaxed);
  auto const& b = batches_[ended_++ % batches_.size()];
  progress_.store(started_ == ended_ ? 0 : clock::now().time_since_epoch().count(),
                  std::memory_order_relaxed);
  end_pieces(b, now == twin_copier::state::copied);
  return true;
}

void transfer_engine::end_pieces(batch const& pieces, bool copied) noexcept {
  for (auto* const p : pieces) {
    auto seen = phase::claimed;
    // Release pairs with the acquires in settle() and hand_over(): the copy is over.
    if (!p->state.compare_exchange_strong(seen, copied ? phase::copied : phase::failed,
                                          std::memory_order_release, std::memory_order_relaxed))
      p->state.store(phase::idle, std::memory_order_release);  // abandoned
  }
}

}  // namespace gpufs::daemon
