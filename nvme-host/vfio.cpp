#include <nvme-host/vfio.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::nvme_host {

namespace {

[[noreturn]] void fail(int error, std::string const& what) {
  throw std::system_error{error, std::generic_category(), "nvme: " + what};
}

int open_or_fail(std::string const& path, std::string const& remedy) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail(errno, path + ": " + remedy);
  return fd;
}

int open_group(std::string const& group, std::string const& device) {
  std::string const path = "/dev/vfio/" + group;
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0) return fd;
  int const error = errno;
  fail(error,
       path + (error == EBUSY
                   ? ": the IOMMU group of " + device +
                         " is open already: name each drive once, end other users of it; "
                         "drives of one group cannot be used together"
                   : ": bind " + device + " to vfio-pci, and allow this user to open the group"));
}

/// The addresses that the IOMMU takes. An older kernel does not tell: then 39 bits, which all take.
std::vector<iova_range> iova_ranges(int container) {
  std::vector<iova_range> const usual{{0, 0xfedfffffu}, {0xfef00000u, (1ull << 39) - 1}};
  ::vfio_iommu_type1_info size{};
  size.argsz = sizeof size;
  if (::ioctl(container, VFIO_IOMMU_GET_INFO, &size) != 0) return usual;
  std::vector<std::byte> bytes(std::max<std::size_t>(size.argsz, sizeof size));
  auto* const info = reinterpret_cast<::vfio_iommu_type1_info*>(bytes.data());
  info->argsz = static_cast<std::uint32_t>(bytes.size());
  if (::ioctl(container, VFIO_IOMMU_GET_INFO, info) != 0) return usual;
  if ((info->flags & VFIO_IOMMU_INFO_CAPS) == 0) return usual;
  for (std::uint32_t at = info->cap_offset; at != 0;) {
    if (at + sizeof(::vfio_info_cap_header) > bytes.size()) break;
    auto const* const header = reinterpret_cast<::vfio_info_cap_header const*>(bytes.data() + at);
    if (header->id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
      auto const* const told =
          reinterpret_cast<::vfio_iommu_type1_info_cap_iova_range const*>(header);
      std::vector<iova_range> ranges;
      for (std::uint32_t i = 0; i < told->nr_iovas; ++i)
        ranges.push_back({told->iova_ranges[i].start, told->iova_ranges[i].end});
      if (!ranges.empty()) return ranges;
    }
    at = header->next;
  }
  return usual;
}

}  // namespace

mapped_registers::~mapped_registers() {
  if (view_.bytes() != 0) ::munmap(view_.at(0), view_.bytes());
}
mapped_registers::mapped_registers(mapped_registers&& other) noexcept
    : view_{std::exchange(other.view_, {})} {}
mapped_registers& mapped_registers::operator=(mapped_registers&& other) noexcept {
  std::swap(view_, other.view_);
  return *this;
}

owned_fd::~owned_fd() {
  if (fd_ >= 0) ::close(fd_);
}
owned_fd::owned_fd(owned_fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
owned_fd& owned_fd::operator=(owned_fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

vfio_space::vfio_space(int container) : container_{container}, addresses_{iova_ranges(container)} {}

std::uint64_t vfio_space::map(std::byte* memory, std::uint64_t bytes) {
  std::lock_guard const lock{mutex_};
  std::uint64_t const bus = addresses_.take(bytes);
  if (bus == 0) fail(ENOSPC, "no addresses of the IOMMU are left, use less memory");
  // Before the system call: nobody could take back a mapping that is not noted here.
  try {
    mapped_[memory] = bus;
  } catch (std::bad_alloc const&) {
    addresses_.give_back(bus);
    throw;
  }
  ::vfio_iommu_type1_dma_map map{};
  map.argsz = sizeof map;
  map.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
  map.vaddr = reinterpret_cast<std::uint64_t>(memory);
  map.iova = bus;
  map.size = bytes;
  if (::ioctl(container_, VFIO_IOMMU_MAP_DMA, &map) != 0) {
    int const error = errno;
    mapped_.erase(memory);
    addresses_.give_back(bus);
    fail(error, error == ENOMEM
                    ? "memory cannot be locked for the drive, raise RLIMIT_MEMLOCK (ulimit -l)"
                    : "memory cannot be mapped for the drive");
  }
  return bus;
}

void vfio_space::unmap(std::byte* memory, std::uint64_t bytes) noexcept {
  std::lock_guard const lock{mutex_};
  auto const at = mapped_.find(memory);
  if (at == mapped_.end()) return;
  ::vfio_iommu_type1_dma_unmap unmap{};
  unmap.argsz = sizeof unmap;
  unmap.iova = at->second;
  unmap.size = bytes;
  // An address that stays mapped is never given again.
  if (::ioctl(container_, VFIO_IOMMU_UNMAP_DMA, &unmap) == 0) addresses_.give_back(at->second);
  mapped_.erase(at);
}

vfio_link::vfio_link(std::string const& device) {
  open_device(device);
  map_registers(device);
  set_command_register(device);
  space_ = std::make_unique<vfio_space>(container_.get());
}

void vfio_link::open_device(std::string const& device) {
  std::filesystem::path const folder = "/sys/bus/pci/devices/" + device;
  std::error_code none;
  std::string const group = std::filesystem::read_symlink(folder / "iommu_group", none).filename();
  if (none)
    fail(none.value(), device +
                           " is no PCI device behind an IOMMU: see lspci -D, and switch the "
                           "IOMMU on (intel_iommu=on or amd_iommu=on)");
  container_ = owned_fd{open_or_fail("/dev/vfio/vfio", "load the module vfio_iommu_type1")};
  if (::ioctl(container_.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
      ::ioctl(container_.get(), VFIO_CHECK_EXTENSION, VFIO_TYPE1_IOMMU) != 1)
    fail(ENOTSUP, "vfio has no IOMMU of type 1 here");
  group_ = owned_fd{open_group(group, device)};
  ::vfio_group_status status{};
  status.argsz = sizeof status;
  if (::ioctl(group_.get(), VFIO_GROUP_GET_STATUS, &status) != 0 ||
      (status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0)
    fail(EBUSY, "group " + group + " has devices with other drivers, bind them to vfio-pci, too");
  int const container = container_.get();
  if (::ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &container) != 0)
    fail(errno, "group " + group + " is in use: end the other user of it");
  if (::ioctl(container_.get(), VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU) != 0)
    fail(errno, "the IOMMU cannot be set up for group " + group);
  device_ = owned_fd{::ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, device.c_str())};
  if (device_.get() < 0) fail(errno, device + " cannot be taken from group " + group);
}

void vfio_link::map_registers(std::string const& device) {
  ::vfio_region_info region{};
  region.argsz = sizeof region;
  region.index = VFIO_PCI_BAR0_REGION_INDEX;
  if (::ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &region) != 0)
    fail(errno, device + ": vfio-pci has no BAR0 of it: is it an NVMe drive?");
  if ((region.flags & VFIO_REGION_INFO_FLAG_MMAP) == 0 || region.size < 8192)
    fail(ENOTSUP, device + ": BAR0 cannot be mapped: is it an NVMe drive?");
  void* const base = ::mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_SHARED, device_.get(),
                            static_cast<::off_t>(region.offset));
  if (base == MAP_FAILED) fail(errno, device + ": BAR0 cannot be mapped");
  registers_ = mapped_registers{base, region.size};
}

// Legacy interrupts go off: nobody handles them, and the line of one that stays asserted is
// switched off by the system, also for other devices that share it.
void vfio_link::set_command_register(std::string const& device) const {
  constexpr std::uint64_t command = 4;  // register of the configuration space
  constexpr std::uint16_t memory_and_master = 2 | 4;
  constexpr std::uint16_t no_legacy_interrupts = 0x400;
  ::vfio_region_info region{};
  region.argsz = sizeof region;
  region.index = VFIO_PCI_CONFIG_REGION_INDEX;
  std::uint16_t word = 0;
  if (::ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &region) != 0 ||
      ::pread(device_.get(), &word, 2, static_cast<::off_t>(region.offset + command)) != 2)
    fail(errno, device + ": its configuration space cannot be read");
  word |= memory_and_master | no_legacy_interrupts;
  if (::pwrite(device_.get(), &word, 2, static_cast<::off_t>(region.offset + command)) != 2)
    fail(errno, device + ": bus mastering cannot be switched on");
}

}  // namespace gpufs::nvme_host
