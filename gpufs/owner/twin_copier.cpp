// Copies batches of staging pieces to the twin, on streams used in rotation.
#include <gpufs/device.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/owner/twin_copier.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <vector>

namespace gpufs::owner {

namespace {

class stream_copier final : public daemon::twin_copier {
 public:
  stream_copier(std::byte const* staging, std::byte* twin) : staging_(staging), twin_(twin) {}

  [[nodiscard]] unsigned depth() const noexcept override { return streams; }

  bool start(std::span<daemon::copy_range const> ranges) noexcept override {
    try {
      if (started_ == 0) device_memory::enter_library_thread(device_);  // the one that copies
      pieces_.clear();
      for (auto const& r : ranges)
        pieces_.push_back({twin_ + r.offset, staging_ + r.offset, r.bytes});
      device_memory::copy_to_device(all_[started_ % streams], pieces_);
      ++started_;
      return true;
    } catch (std::exception const&) {
      return false;
    }
  }

  state look_at_oldest() noexcept override {
    try {
      if (!all_[ended_ % streams].done()) return state::under_way;
    } catch (std::exception const&) {
      ++ended_;
      return state::failed;
    }
    ++ended_;
    return state::copied;
  }

 private:
  // Each stream has one batch. The device gets the next batch while it copies the last.
  static constexpr unsigned streams = 3;

  int device_ = current_device_number();
  std::byte const* staging_;
  std::byte* twin_;
  std::array<stream, streams> all_;
  std::uint64_t started_ = 0, ended_ = 0;
  std::vector<device_memory::pinned_copy> pieces_;
};

}  // namespace

std::unique_ptr<daemon::twin_copier> make_twin_copier(std::byte const* staging, std::byte* twin) {
  return std::make_unique<stream_copier>(staging, twin);
}

}  // namespace gpufs::owner
