#include <nvme-host/software.hpp>

#include <chrono>
#include <new>
#include <thread>

namespace gpufs::nvme_host {

software_link::software_link(nvme_controller::controller_options const& options,
                             memory_source const& memory, std::uint64_t bus_offset)
    : registers_{memory(nvme_controller::register_bytes())},
      controller_{registers_.get(), options},
      space_{controller_, bus_offset} {}

register_file software_link::registers() const {
  return {reinterpret_cast<std::uint32_t*>(registers_.get()), nvme_controller::register_bytes()};
}

std::uint64_t software_link::space::map(std::byte* memory, std::uint64_t bytes) {
  std::uint64_t const bus = reinterpret_cast<std::uint64_t>(memory) + offset_;
  to_.map({bus, bytes, memory});
  return bus;
}

// The caller frees the memory then. So it waits while there is none for a table without the range.
void software_link::space::unmap(std::byte* memory, std::uint64_t) noexcept {
  for (;;) {
    try {
      return to_.unmap(reinterpret_cast<std::uint64_t>(memory) + offset_);
    } catch (std::bad_alloc const&) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
}

}  // namespace gpufs::nvme_host
