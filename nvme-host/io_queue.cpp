#include <nvme-host/io_queue.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace gpufs::nvme_host {

namespace {

void ring(std::uint32_t* doorbell, std::uint32_t value) {
  // Later than the entries before it. Pairs with the acquire of a software controller.
  std::atomic_ref<std::uint32_t>{*doorbell}.store(value, std::memory_order_release);
}

}  // namespace

queue_counts& queue_counts::operator+=(queue_counts const& other) {
  doorbells += other.doorbells;
  looks += other.looks;
  empty_looks += other.empty_looks;
  strays += other.strays;
  return *this;
}

io_queue::io_queue(control_plane& plane, queue_pair_memory const& pair, shape const& of)
    : pair_{pair},
      shape_{of},
      slot_bits_{static_cast<unsigned>(std::bit_width(of.slots - 1))},
      pieces_{plane.link().memory(), anonymous_memory(), std::uint64_t{of.slots} * of.piece_bytes},
      lists_{plane.link().memory(), anonymous_memory(), std::uint64_t{of.slots} * nvme::page_bytes},
      slots_(of.slots) {
  free_.reserve(of.slots);
  for (std::uint32_t slot = of.slots; slot-- > 0;) {
    nvme::prp_piece const piece{pieces_.bus() + std::uint64_t{slot} * of.piece_bytes, 0};
    std::byte* const list = lists_.data() + std::uint64_t{slot} * nvme::page_bytes;
    for (std::uint32_t i = 0; i < nvme::list_entries(of.piece_bytes); ++i) {
      std::uint64_t const entry = nvme::list_entry(piece, i);
      std::memcpy(list + 8 * i, &entry, sizeof entry);
    }
    free_.push_back(slot);
  }
}

std::optional<std::uint32_t> io_queue::try_slot() {
  std::lock_guard const lock{mutex_};
  if (free_.empty()) drain();  // slots that were given up may be free by now
  if (free_.empty()) return std::nullopt;
  std::uint32_t const slot = free_.back();
  free_.pop_back();
  return slot;
}

std::uint16_t io_queue::cid(std::uint32_t slot) const {
  // Never ffffh, which no command may have: sequences have 15 bits less the slot's.
  return static_cast<std::uint16_t>((slots_[slot].sequence << slot_bits_ | slot) & 0x7fff);
}

void io_queue::send_transfer(std::uint32_t slot, nvme::opcode code, nvme::block_range range,
                             std::uint32_t bytes) {
  nvme::prp_piece const piece{pieces_.bus() + std::uint64_t{slot} * shape_.piece_bytes,
                              lists_.bus() + std::uint64_t{slot} * nvme::page_bytes};
  send(slot, nvme::make_transfer(code, 0, shape_.nsid, range, nvme::prps(piece, 0, bytes)));
}

void io_queue::send_flush(std::uint32_t slot) { send(slot, nvme::make_flush(0, shape_.nsid)); }

// The queue has room: fewer commands are under way than it has entries, and controllers take
// entries in order. A command that was answered was taken.
void io_queue::send(std::uint32_t slot, nvme::sqe entry) {
  std::lock_guard const lock{mutex_};
  slot_state& state = slots_[slot];
  ++state.sequence;
  state.is = phase::busy;
  entry.dw[0] = (entry.dw[0] & 0xffff) | std::uint32_t{cid(slot)} << 16;
  std::memcpy(&pair_.sq[tail_], &entry, sizeof entry);
  tail_ = (tail_ + 1) & (pair_.depth - 1);
  ring(pair_.sq_doorbell, tail_);
  ++counts_.doorbells;
}

std::optional<nvme::cqe> io_queue::poll(std::uint32_t slot) {
  std::lock_guard const lock{mutex_};
  if (slots_[slot].is != phase::answered) drain();
  if (slots_[slot].is != phase::answered) return std::nullopt;
  return slots_[slot].answer;
}

void io_queue::drain() {
  std::uint32_t const entries = 2 * pair_.depth;
  std::uint32_t const first = head_;
  for (;;) {
    std::uint32_t* const words = pair_.cq[head_ & (entries - 1)].dw;
    nvme::cqe entry{};
    // Pairs with the controller's release: it stores word 3 last.
    entry.dw[3] = std::atomic_ref<std::uint32_t>{words[3]}.load(std::memory_order_acquire);
    auto const lap = static_cast<unsigned>(std::countr_zero(entries));
    if (nvme::phase_of(entry.dw[3]) != nvme::phase_at(head_, lap)) break;
    for (unsigned i = 0; i < 3; ++i)
      entry.dw[i] = std::atomic_ref<std::uint32_t>{words[i]}.load(std::memory_order_relaxed);
    ++head_;
    take(entry);
  }
  ++counts_.looks;
  if (head_ == first) {
    ++counts_.empty_looks;
    return;
  }
  ring(pair_.cq_doorbell, head_ & (entries - 1));
  ++counts_.doorbells;
}

void io_queue::take(nvme::cqe const& entry) {
  std::uint32_t const slot = nvme::cid_of(entry) & ((1u << slot_bits_) - 1);
  bool const known =
      nvme::sq_id_of(entry) == pair_.id && slot < slots_.size() && nvme::cid_of(entry) == cid(slot);
  if (known && slots_[slot].is == phase::busy) {
    slots_[slot].is = phase::answered;
    slots_[slot].answer = entry;
  } else if (known && slots_[slot].is == phase::given_up) {
    slots_[slot].is = phase::free;
    free_.push_back(slot);
    given_up_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    ++counts_.strays;
  }
}

void io_queue::free_slot(std::uint32_t slot) {
  std::lock_guard const lock{mutex_};
  slots_[slot].is = phase::free;
  free_.push_back(slot);
}

std::optional<nvme::cqe> io_queue::give_up(std::uint32_t slot, io_clock::time_point sent) {
  std::lock_guard const lock{mutex_};
  slot_state& state = slots_[slot];
  if (state.is != phase::answered) drain();
  if (state.is == phase::answered) return state.answer;
  state.is = phase::given_up;
  state.sent = sent;
  given_up_.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

// Without the lock while none was given up: calls ask for each queue.
std::optional<io_clock::time_point> io_queue::oldest_given_up() {
  if (given_up_.load(std::memory_order_relaxed) == 0) return std::nullopt;
  std::lock_guard const lock{mutex_};
  drain();
  std::optional<io_clock::time_point> oldest;
  for (slot_state const& each : slots_)
    if (each.is == phase::given_up) oldest = std::min(each.sent, oldest.value_or(each.sent));
  return oldest;
}

queue_counts io_queue::counts() const {
  std::lock_guard const lock{mutex_};
  return counts_;
}

void io_queue::leak() noexcept {
  pieces_.leak();
  lists_.leak();
}

}  // namespace gpufs::nvme_host
