#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/device_drives.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace gpufs::owner {

namespace {

constexpr std::uint64_t page_bytes = nvme::page_bytes;

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/// Memory that is counted while it exists.
struct counted_piece {
  pinned_buffer<std::byte> memory;
  std::shared_ptr<std::atomic<std::uint64_t>> const pinned;

  counted_piece(std::uint64_t bytes, std::shared_ptr<std::atomic<std::uint64_t>> count)
      : memory{bytes}, pinned{std::move(count)} {
    memory.fill_zero();
    pinned->fetch_add(bytes, std::memory_order_relaxed);
  }
  ~counted_piece() { pinned->fetch_sub(memory.bytes(), std::memory_order_relaxed); }
  counted_piece(counted_piece const&) = delete;
  counted_piece& operator=(counted_piece const&) = delete;
};

}  // namespace

nvme_host::memory_source pinned_memory(std::shared_ptr<kept_memory> keep) {
  return [keep = std::move(keep)](std::uint64_t bytes) {
    auto owner = std::make_shared<counted_piece>(bytes, keep->pinned);
    std::shared_ptr<std::byte> memory{owner, owner->memory.data()};
    keep->pieces.push_back(memory);
    return memory;
  };
}

device_drives::device_drives(fs_ref const& fs, nvme_host::volume& volume, place const& at,
                             memory_list keep)
    : shared_{fs.link.shared},
      place_{at},
      timeout_{fs.link.timeout_ns},
      entries_{fs.blocks.table + std::size_t{handle::entry_places} * (at.number - 1u),
               handle::entry_places},
      keep_{std::move(keep)} {
  make_pairs(volume);
  try {
    map_staging(volume);
  } catch (...) {
    for (auto& member : members_) unmap(member);
    throw;
  }
}

// Throws std::runtime_error if a member lacks pairs, or its queues have another depth.
std::size_t device_drives::pairs_of_each(nvme_host::volume const& volume) const {
  std::size_t each = std::numeric_limits<std::size_t>::max();
  std::uint32_t depth = 0;
  for (auto const& drive : volume.drives()) {
    auto const& pairs = drive->device_pairs();
    if (auto const& why = drive->why_no_device_pairs(); !why.empty())
      throw std::runtime_error{
          fmt::format("{}: no queue pairs for kernels: {}", drive->name(), why)};
    std::uint32_t const own = drive->depth();
    std::size_t const needed = nvme_host::pairs_for(shared_.channels, own);
    if (pairs.empty() || pairs.size() < needed)
      throw std::runtime_error{
          fmt::format("{}: {} queue pairs for kernels, {} are needed for {} channels; raise "
                      "nvme_queue_depth, or use a controller that grants more",
                      drive->name(), pairs.size(), needed, shared_.channels)};
    if (depth != 0 && own != depth)
      throw std::runtime_error{fmt::format(
          "{}: queues of {} entries, those of other members have {}; set nvme_queue_depth to what "
          "all controllers allow",
          drive->name(), own, depth)};
    depth = own;
    each = std::min(each, pairs.size());
  }
  return each;
}

// Channel c has the CID c / pairs of pair place_of_channel(c, pairs) of each member. Pairs that not
// all members have stay unused.
void device_drives::make_pairs(nvme_host::volume& volume) {
  auto const& drives = volume.drives();
  std::size_t const each = pairs_of_each(volume);
  std::uint32_t const depth = drives[0]->device_pairs()[0].depth;
  ended_ = pinned_buffer<nvme::state_place>(drives.size() * nvme::state_places);
  ended_.fill_zero();
  std::uint64_t const count = each * drives.size();
  pairs_ = buffer<nvme::queue_pair_ref>(count);
  words_ = buffer<nvme::queue_words>(count);
  marks_ = buffer<std::uint32_t>(count * depth);
  marks_.fill_zero();
  nvme::queue_words fresh{};
  fresh.look_pause = 1;
  std::vector<nvme::queue_words> const words(count, fresh);
  words_.copy_from_host(words.data(), count);
  for (auto const& drive : drives) {
    std::uint32_t place = 0;
    for (auto const& pair : std::span{drive->device_pairs()}.first(each)) {
      std::uint64_t const at = refs_.size();
      nvme::queue_pair_ref ref;
      ref.sq = pair.sq;
      ref.cq = pair.cq;
      ref.sq_doorbell = pair.sq_doorbell;
      ref.cq_doorbell = pair.cq_doorbell;
      ref.words = words_.data() + at;
      ref.marks = marks_.data() + at * depth;
      ref.log2 = static_cast<std::uint32_t>(std::countr_zero(depth));
      ref.channel_count = depth - 1;
      ref.id = pair.id;
      ref.place = place++;
      ref.places = static_cast<std::uint32_t>(each);
      ref.backing = place_.number;
      ref.member = static_cast<std::uint32_t>(at / each);
      ref.ended = &ended_[at / each * nvme::state_places];
      refs_.push_back(ref);
    }
  }
  if (place_.relays_doorbells) relay_doorbells();
  pairs_.copy_from_host(refs_.data(), count);
}

// Kernels get words of the relay in place of the doorbells. keep_ has a share of their memory, so a
// kernel that is late does no harm, whatever becomes of the registers.
void device_drives::relay_doorbells() {
  std::vector<nvme_host::relayed_doorbell> all;
  for (auto const& ref : refs_) {
    all.push_back({ref.sq_doorbell, ref.member});
    all.push_back({ref.cq_doorbell, ref.member});
  }
  relay_.emplace(all, pinned_memory(keep_));
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    refs_[i].sq_doorbell = relay_->word(2 * i);
    refs_[i].cq_doorbell = relay_->word(2 * i + 1);
  }
}

void device_drives::map_staging(nvme_host::volume& volume) {
  auto const& drives = volume.drives();
  std::uint64_t const staging = whole_pages(shared_.staging_bytes);
  std::vector<nvme::block_member> places;
  std::uint64_t most = nvme::most_blocks * std::uint64_t{volume.lba_bytes()};
  for (auto const& drive : drives) {
    auto& memory = members_.emplace_back();
    memory.space = &drive->memory();
    memory.staging = memory.space->map(shared_.staging, staging);
    memory.list = nvme_host::dma_memory{*memory.space, pinned_memory(keep_),
                                        whole_pages(staging / page_bytes * 8)};
    nvme::prp_piece const piece{memory.staging, memory.list.bus()};
    auto* const list = reinterpret_cast<std::uint64_t*>(memory.list.data());
    for (std::uint32_t i = 0; i < nvme::list_entries(staging); ++i)
      list[i] = nvme::list_entry(piece, i);
    places.push_back({pairs_.data() + places.size() * refs_.size() / drives.size(), piece});
    if (auto const limit = drive->identity().most_bytes; limit != 0) most = std::min(most, limit);
  }
  places_ = buffer<nvme::block_member>(places.size());
  places_.copy_from_host(places.data(), places.size());
  nvme::block_backing backing;
  backing.members = places_.data();
  backing.member_count = static_cast<std::uint32_t>(places.size());
  backing.pairs = static_cast<std::uint32_t>(refs_.size() / places.size());
  backing.is_replicated = volume.options().replicated;
  backing.stripe_shift = static_cast<std::uint32_t>(std::countr_zero(volume.options().stripe));
  backing.lba_shift = static_cast<std::uint32_t>(std::countr_zero(volume.lba_bytes()));
  backing.nsid = drives[0]->nsid();
  backing.most_bytes = most;
  if (backing.is_replicated && places.size() > 1) {
    out_until_ = buffer<std::uint64_t>(places.size());
    out_until_.fill_zero();
    backing.out_until = out_until_.data();
    backing.out_ns =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(volume.options().out_of_turn).count());
  }
  backing_ = buffer<nvme::block_backing>(1);
  backing_.copy_from_host(&backing, 1);
}

void device_drives::publish() noexcept {
  // Pairs with usable_backing().
  for (auto& entry : entries_)
    std::atomic_ref{entry.backing}.store(reinterpret_cast<std::uint64_t>(backing_.data()),
                                         std::memory_order_release);
}

void device_drives::fail() noexcept {
  for (auto& entry : entries_) std::atomic_ref{entry.failed}.store(1, std::memory_order_relaxed);
}

bool device_drives::in_use() const noexcept {
  return std::atomic_ref{entries_[0].failed}.load(std::memory_order_relaxed) == 0;
}

void device_drives::mark_ended(std::size_t member) noexcept {
  // Pairs with help_drives().
  nvme::mark_failed(&ended_[member * nvme::state_places], std::memory_order_release);
}

void device_drives::unmap(member_memory& member) noexcept {
  if (member.staging == 0) return;
  member.space->unmap(shared_.staging, whole_pages(shared_.staging_bytes));
  member.staging = 0;
}

// After end() the filesystem's memory may be gone, so the two return at once.
void device_drives::begin_reset(std::size_t member) noexcept {
  std::lock_guard const lock{ending_};
  if (members_.empty()) return;
  fail();
  if (relay_) relay_->end(member);
}

void device_drives::end_member(std::size_t member) noexcept {
  std::lock_guard const lock{ending_};
  if (members_.empty()) return;
  unmap(members_[member]);
  mark_ended(member);
}

// Kernels have sent the member no command since the first look that saw the word, as the backing
// has failed. So nobody waits for one once the time of a wait is over. Other replicas have the
// bytes, so there nobody needs to wait so long.
bool device_drives::lacks_answers(std::size_t member) noexcept {
  std::lock_guard const lock{ending_};
  if (members_.empty()) return false;
  std::atomic_ref const word{ended_[member * nvme::state_places].no_answer};
  if (word.load(std::memory_order_relaxed) == 0) return false;  // pairs with note_no_answer()
  if (out_until_.size() != 0) return true;
  auto const now = std::chrono::steady_clock::now();
  auto& since = members_[member].no_answer_since;
  if (!since) since = now;
  return now - *since > timeout_;
}

void device_drives::end() noexcept {
  std::lock_guard const lock{ending_};
  if (relay_) relay_->stop();
  if (members_.empty()) return;
  fail();
  for (auto& member : members_) unmap(member);
  for (std::size_t i = 0; i < members_.size(); ++i) mark_ended(i);
  members_.clear();
}

std::vector<nvme::queue_words> device_drives::words() const {
  std::vector<nvme::queue_words> all(words_.size());
  words_.copy_to_host(all.data(), all.size());
  return all;
}

std::uint64_t device_drives::metadata_bytes() const {
  return bytes_of(pairs_, words_, marks_, places_, out_until_, backing_);
}

std::uint64_t device_drives::completed() const {
  std::uint64_t sum = 0;
  for (auto const& each : words()) sum += each.drained;
  return sum;
}

std::uint64_t device_drives::failed() const {
  std::uint64_t sum = 0;
  for (auto const& each : words()) sum += each.failed;
  return sum;
}

}  // namespace gpufs::owner
