// Copies between pinned parts and device memory, each part on a stream of its own.
#include <gpufs/device.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/owner/device_copier.hpp>

#include <cstddef>
#include <exception>
#include <vector>

namespace gpufs::owner {

namespace {

class stream_device_copier final : public daemon::device_copier {
 public:
  stream_device_copier(unsigned parts, std::uint64_t part_bytes)
      : bytes_(part_bytes), memory_(parts * part_bytes), streams_(parts) {}

  [[nodiscard]] unsigned parts() const noexcept override { return unsigned(streams_.size()); }

  [[nodiscard]] std::span<std::byte> part(unsigned n) noexcept override {
    return {memory_.data() + n * bytes_, bytes_};
  }

  bool start(direction which, unsigned n, std::uint64_t address,
             std::uint64_t bytes) noexcept override {
    auto* const device = reinterpret_cast<std::byte*>(address);
    auto* const pinned = part(n).data();
    try {
      make_device_current(device_);  // in the calling thread
      if (which == direction::to_host) {
        device_memory::copy_to_pinned(streams_[n], pinned, device, bytes);
      } else {
        device_memory::pinned_copy const one{device, pinned, bytes};
        device_memory::copy_to_device(streams_[n], {&one, 1});
      }
      return true;
    } catch (std::exception const&) {
      return false;
    }
  }

  state look(unsigned n) noexcept override {
    try {
      return streams_[n].done() ? state::copied : state::under_way;
    } catch (std::exception const&) {
      return state::failed;
    }
  }

 private:
  int device_ = current_device_number();
  std::uint64_t bytes_;
  pinned_buffer<std::byte> memory_;
  std::vector<stream> streams_;
};

}  // namespace

std::unique_ptr<daemon::device_copier> make_device_copier(unsigned parts,
                                                          std::uint64_t part_bytes) {
  return std::make_unique<stream_device_copier>(parts, part_bytes);
}

}  // namespace gpufs::owner
