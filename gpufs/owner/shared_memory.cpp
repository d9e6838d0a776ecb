// The public classes of shared memory, over address spaces.
#include <gpufs/device/launch_observer.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

namespace gpufs {

namespace shared {

/// What a call uses of one address space.
class call {
 public:
  explicit call(std::shared_ptr<address_space> space) : space_(std::move(space)) {}

  [[nodiscard]] address_space const* space() const { return space_.get(); }
  void add(part const& p) { parts_.push_back(p); }

  int begin_declared() { return take(space_->begin(std::move(parts_))); }
  int begin_with_all() { return take(space_->begin(std::nullopt)); }
  void end_behind(stream& on) noexcept {
    if (number_ > 0) space_->end_behind(on, std::exchange(number_, 0));
  }

 private:
  int take(std::int64_t result) {
    number_ = std::max<std::int64_t>(result, 0);
    return result < 0 ? int(result) : 0;
  }

  std::shared_ptr<address_space> space_;
  std::vector<part> parts_;
  std::int64_t number_ = 0;
};

}  // namespace shared

namespace {

using shared::address_space;
using shared::call;

constexpr char device_failed[] =
    "shared memory: the device failed, or the system has no more mappings (vm.max_map_count)";

/// All address spaces, for launches that declare nothing.
struct living_spaces {
  std::mutex mutex;
  std::vector<std::weak_ptr<address_space>> all;

  static living_spaces& list() {
    static auto& spaces = *new living_spaces;  // launches of static objects' destructors use it
    return spaces;
  }
  void add(std::shared_ptr<address_space> const& space) {
    std::lock_guard const lock(mutex);
    std::erase_if(all, [](auto const& s) { return s.expired(); });
    all.push_back(space);
  }
  std::vector<std::shared_ptr<address_space>> living() {
    std::lock_guard const lock(mutex);
    std::vector<std::shared_ptr<address_space>> found;
    for (auto const& s : all) {
      if (auto space = s.lock()) found.push_back(std::move(space));
    }
    return found;
  }
};

thread_local unsigned declared_launches = 0;

/// Hands all objects to launches that declare nothing.
class undeclared_launches final : public device::launch_observer {
 public:
  bool before_launch(stream& on) override {
    if (declared_launches != 0) return false;
    std::vector<call> calls;
    for (auto& space : living_spaces::list().living()) calls.emplace_back(std::move(space));
    if (calls.empty()) return false;
    for (auto& c : calls) {
      int const result = c.begin_with_all();
      if (result == 0) continue;
      for (auto& begun : calls) begun.end_behind(on);
      throw shared_memory_error(-result, device_failed);
    }
    under_way().push_back(std::move(calls));
    return true;
  }
  void after_launch(stream& on) noexcept override {
    auto calls = std::move(under_way().back());
    under_way().pop_back();
    for (auto& c : calls) c.end_behind(on);
  }

 private:
  static std::vector<std::vector<call>>& under_way() {
    thread_local std::vector<std::vector<call>> launches;
    return launches;
  }
};

void watch_launches() {
  static undeclared_launches& watch = *new undeclared_launches;
  // Pairs with the load of each launch.
  device::observer.store(&watch, std::memory_order_release);
}

void check_block(std::uint64_t block, char const* name) {
  constexpr std::uint64_t least = 4 << 10, most = 32 << 20;
  if (block == block_automatic || (std::has_single_bit(block) && block >= least && block <= most))
    return;
  owner::reject(name, std::to_string(block), "auto (0) or a power of two from 4K to 32M");
}

}  // namespace

void validate(mapping_config const& c) {
  constexpr std::uint64_t most_addresses = 64ull << 40;
  if (c.address_space < device_memory::shared_range::least_bytes ||
      c.address_space > most_addresses ||
      c.address_space % device_memory::shared_range::granularity != 0)
    owner::reject("address_space", std::to_string(c.address_space),
                  "a multiple of 2M from 64G to 64T");
  check_block(c.coherence_block, "coherence_block");
  if (c.rolling_size > 1u << 30)
    owner::reject("rolling_size", std::to_string(c.rolling_size),
                  "auto (0) or a number up to 1073741824");
  if (c.rolling_per_object < 1 || c.rolling_per_object > 1024)
    owner::reject("rolling_per_object", std::to_string(c.rolling_per_object),
                  "a number from 1 to 1024");
  if (c.rolling_patience < 1 || c.rolling_patience > 1u << 20)
    owner::reject("rolling_patience", std::to_string(c.rolling_patience),
                  "a number from 1 to 1048576");
}

// mapping

mapping::~mapping() {
  int const result = unmap();
  if (result != 0)
    fmt::print(stderr, "gpufs: a shared object went while the device had failed: {}\n",
               std::strerror(-result));
}

mapping& mapping::operator=(mapping&& other) noexcept {
  std::swap(space_, other.space_);
  std::swap(object_, other.object_);
  return *this;
}

void* mapping::data() const { return space_ == nullptr ? nullptr : space_->address_of(*object_); }

std::uint64_t mapping::size() const { return space_ == nullptr ? 0 : object_->bytes; }

namespace {
bool lies_in(std::uint64_t first, std::uint64_t bytes, std::uint64_t size) {
  return first <= size && bytes <= size - first;
}
}  // namespace

int mapping::acquire(std::uint64_t first, std::uint64_t bytes, access use) {
  if (space_ == nullptr || !lies_in(first, bytes, size())) return -EINVAL;
  return space_->acquire(*object_, {first, bytes, use});
}

int mapping::prefetch_to_device(std::uint64_t first, std::uint64_t bytes) {
  if (space_ == nullptr || !lies_in(first, bytes, size())) return -EINVAL;
  return space_->send(*object_, object_->blocks_of(first, bytes));
}

int mapping::unmap() {
  if (space_ == nullptr) return 0;
  auto const space = std::exchange(space_, nullptr);
  return space->remove(*std::exchange(object_, nullptr));
}

mapping_statistics mapping::stats() const {
  return space_ == nullptr ? mapping_statistics{} : space_->counts(object_);
}

// shared_memory

shared_memory::shared_memory(mapping_config const& settings) {
  validate(settings);
  space_ = std::make_shared<address_space>(settings);
  living_spaces::list().add(space_);
  watch_launches();
}

shared_memory::~shared_memory() = default;

mapping shared_memory::allocate(std::uint64_t bytes, map_options const& options) {
  check_block(options.block.value_or(block_automatic), "block");
  return {space_, space_->allocate(bytes, options)};
}

void shared_memory::synchronize() {
  gpufs::synchronize();
  space_->acquire_batches();
}

void shared_memory::synchronize(stream& on) {
  on.synchronize();
  space_->acquire_batches();
}

shared_place shared_memory::find(void const* address) const {
  auto const at = reinterpret_cast<std::uintptr_t>(address);
  auto const* const found = space_->find(at);
  if (found == nullptr) return {nullptr, 0, 0};
  auto* const begin = space_->address_of(*found);
  return {begin, at - reinterpret_cast<std::uintptr_t>(begin), found->bytes};
}

mapping_statistics shared_memory::stats() const { return space_->counts(); }

std::vector<std::string> shared_memory::notes() const { return space_->notes(); }

// shared_call

shared_call::shared_call(stream* on) : on_(on != nullptr ? on : &this_thread_stream()) {}

shared_call::~shared_call() { launched(); }

shared_call& shared_call::add(mapping const& m, std::uint64_t first, std::uint64_t bytes,
                              access use) {
  if (m.space_ == nullptr || !lies_in(first, bytes, m.size())) {
    wrong_ = -EINVAL;
    return *this;
  }
  auto found = std::ranges::find(parts_, m.space_.get(), [](auto const& c) { return c->space(); });
  if (found == parts_.end()) {
    parts_.push_back(std::make_unique<call>(m.space_));
    found = std::prev(parts_.end());
  }
  (*found)->add({m.object_, m.object_->blocks_of(first, bytes), use != access::read});
  return *this;
}

shared_call& shared_call::reads(mapping const& m) { return add(m, 0, m.size(), access::read); }
shared_call& shared_call::reads(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::read);
}
shared_call& shared_call::writes(mapping const& m) { return add(m, 0, m.size(), access::write); }
shared_call& shared_call::writes(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::write);
}
shared_call& shared_call::reads_writes(mapping const& m) {
  return add(m, 0, m.size(), access::read_write);
}
shared_call& shared_call::reads_writes(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::read_write);
}

int shared_call::release() {
  if (wrong_ != 0 || released_) return -EINVAL;
  released_ = true;
  for (auto const& c : parts_) {
    int const result = c->begin_declared();
    if (result != 0) return result;
  }
  return 0;
}

void shared_call::launched() noexcept {
  for (auto const& c : parts_) c->end_behind(*on_);
}

namespace detail {

declared_launch::declared_launch() noexcept { ++declared_launches; }
declared_launch::~declared_launch() { --declared_launches; }

void release_or_throw(shared_call& call) {
  int const result = call.release();
  if (result == -EINVAL)
    throw shared_memory_error(
        EINVAL,
        "shared memory: a call declares bytes beyond an object, an empty mapping, or is "
        "launched twice; make a shared_call per launch");
  if (result != 0) throw shared_memory_error(-result, device_failed);
}

}  // namespace detail

}  // namespace gpufs
