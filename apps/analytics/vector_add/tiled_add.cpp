// vectorAdd as experts write it: tiles. While one is added and written, the next is read.
#include <gpufs/device.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/analytics/vector_add/add_in_memory.hpp>
#include <apps/analytics/vector_add/vector_add.hpp>
#include <apps/common/seconds_since.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <thread>

namespace gpufs::apps::analytics {

namespace {

constexpr std::uint64_t tiles = 5;

/// A thread whose exception is thrown again where it is waited for.
class background {
 public:
  template <class Work>
  void start(Work work) {
    failure_ = nullptr;
    thread_ = std::jthread([this, work] {
      try {
        work();
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }

  void wait() {
    if (!thread_.joinable()) return;
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::jthread thread_;
};

/// Memory for a tile, and its write if that is under way.
struct tile_slot {
  explicit tile_slot(std::uint64_t elements)
      : host_a(elements),
        host_b(elements),
        host_c(elements),
        a(elements),
        b(elements),
        c(elements) {
    // Pinned memory that nobody has written may not be there yet.
    host_a.fill_zero();
    host_b.fill_zero();
    host_c.fill_zero();
  }

  pinned_buffer<std::uint64_t> host_a, host_b, host_c;
  buffer<std::uint64_t> a, b, c;
  stream on;
  event added;
  background written;  // ends before what it uses
};

class tiled_add final : public vector_add {
 public:
  explicit tiled_add(vector_add_setup const& s)
      : setup_(s),
        tile_elements_((s.elements + tiles - 1) / tiles),
        slots_{tile_slot(tile_elements_), tile_slot(tile_elements_)} {
    load_add_in_memory();
  }

  run_outcome run() override {
    run_outcome r;
    auto const start = std::chrono::steady_clock::now();
    unsigned turn = 0;
    for (std::uint64_t first = 0; first < setup_.elements; first += tile_elements_) {
      tile_slot& slot = slots_[turn++ % slots_.size()];
      slot.written.wait();
      start_tile(slot, first, std::min(tile_elements_, setup_.elements - first));
    }
    for (auto& slot : slots_) slot.written.wait();
    setup_.c->make_durable();
    r.seconds = seconds_since(start);
    return r;
  }

 private:
  /// Reads a tile. The rest goes on when this returns.
  void start_tile(tile_slot& slot, std::uint64_t first, std::uint64_t count) {
    std::uint64_t const offset = first * sizeof(std::uint64_t);
    std::uint64_t const bytes = count * sizeof(std::uint64_t);
    auto const read = [&](data_file const& from, pinned_buffer<std::uint64_t>& to) {
      read_by_threads(from.file, reinterpret_cast<std::byte*>(to.data()), bytes, offset);
    };
    read(*setup_.a, slot.host_a);
    read(*setup_.b, slot.host_b);
    std::array<device_memory::pinned_copy, 2> const inputs{
        {{slot.a.data(), slot.host_a.data(), bytes}, {slot.b.data(), slot.host_b.data(), bytes}}};
    device_memory::copy_to_device(slot.on, inputs);
    add_in_memory(slot.on, setup_.shape, slot.a.data(), slot.b.data(), slot.c.data(), count);
    device_memory::copy_to_pinned(slot.on, slot.host_c.data(), slot.c.data(), bytes);
    slot.added.record(slot.on);
    slot.written.start([this, &slot, bytes, offset] {
      slot.added.synchronize();
      setup_.c->write_by_threads(reinterpret_cast<std::byte const*>(slot.host_c.data()), bytes,
                                 offset);
    });
  }

  vector_add_setup const& setup_;
  std::uint64_t tile_elements_;
  std::array<tile_slot, 2> slots_;
};

}  // namespace

std::unique_ptr<vector_add> make_tiled_add(vector_add_setup const& s) {
  return std::make_unique<tiled_add>(s);
}

}  // namespace gpufs::apps::analytics
