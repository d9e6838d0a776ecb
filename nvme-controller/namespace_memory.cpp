// Namespaces without a file: memory, and nothing.
#include <nvme-controller/block_namespace.hpp>

#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include <sys/mman.h>

namespace gpufs::nvme_controller {

namespace {

void check_lba(std::uint32_t bytes) {
  if (bytes != 512 && bytes != 4096)
    throw std::invalid_argument{"nvme: blocks of " + std::to_string(bytes) +
                                " bytes, 512 or 4096 are possible"};
}

std::uint64_t whole_blocks(std::uint64_t bytes, std::uint32_t lba) {
  check_lba(lba);
  if (bytes == 0 || bytes > std::uint64_t{1} << 62)
    throw std::invalid_argument{"nvme: a namespace of " + std::to_string(bytes) +
                                " bytes, 1 to 2^62 are possible"};
  return (bytes + lba - 1) / lba * lba;
}

}  // namespace

memory_namespace::memory_namespace(std::uint64_t bytes, std::uint32_t lba_bytes)
    : bytes_{whole_blocks(bytes, lba_bytes)}, lba_{lba_bytes}, memory_{nullptr} {
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  memory_ = static_cast<std::byte*>(memory);
}
memory_namespace::~memory_namespace() { ::munmap(memory_, bytes_); }

std::uint16_t memory_namespace::read(std::uint64_t offset, std::span<segment const> to) {
  for (segment const& part : to) {
    std::memcpy(part.memory, memory_ + offset, part.bytes);
    offset += part.bytes;
  }
  return nvme::status::success;
}

std::uint16_t memory_namespace::write(std::uint64_t offset, std::span<segment const> from) {
  for (segment const& part : from) {
    std::memcpy(memory_ + offset, part.memory, part.bytes);
    offset += part.bytes;
  }
  return nvme::status::success;
}

std::uint16_t memory_namespace::write_zeroes(std::uint64_t offset, std::uint64_t bytes) {
  std::memset(memory_ + offset, 0, bytes);
  return nvme::status::success;
}

std::uint16_t memory_namespace::flush() { return nvme::status::success; }

null_namespace::null_namespace(std::uint64_t blocks, std::uint32_t lba_bytes)
    : blocks_{blocks}, lba_{lba_bytes} {
  check_lba(lba_bytes);
  if (blocks == 0) throw std::invalid_argument{"nvme: a namespace has at least one block"};
}

}  // namespace gpufs::nvme_controller
