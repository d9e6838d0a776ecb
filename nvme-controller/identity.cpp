#include <nvme-controller/identity.hpp>
#include <nvme-controller/io_commands.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <random>

namespace gpufs::nvme_controller {

namespace {

namespace field = nvme::identify;

constexpr std::size_t controller_type = 111;  // CNTRLTYPE
constexpr std::uint8_t io_controller = 1;
constexpr std::size_t event_limit = 259;  // AERL, which counts from 0
constexpr std::size_t subsystem_name = 768, subsystem_name_bytes = 256;  // SUBNQN

/// Texts are padded with spaces.
void put_text(identity_page& page, std::size_t at, std::size_t bytes, std::string_view text) {
  std::fill_n(page.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::byte{' '});
  std::memcpy(page.data() + at, text.data(), std::min(bytes, text.size()));
}

template <class T>
void put(identity_page& page, std::size_t at, T value) {
  std::memcpy(page.data() + at, &value, sizeof value);
}

}  // namespace

std::string new_subsystem_name() {
  std::random_device random;
  std::uint32_t const words[] = {random(), random(), random(), random()};
  std::uint32_t const version_4 = (words[1] & 0xffff0fff) | 0x4000;
  std::uint32_t const variant_1 = (words[2] & 0x3fffffff) | 0x80000000;
  char uuid[40];
  std::snprintf(uuid, sizeof uuid, "%08x-%04x-%04x-%04x-%04x%08x", words[0], version_4 >> 16,
                version_4 & 0xffff, variant_1 >> 16, variant_1 & 0xffff, words[3]);
  return std::string{"nqn.2014-08.org.nvmexpress:uuid:"} + uuid;
}

identity_page controller_identity(std::string_view subsystem) {
  identity_page page{};
  put_text(page, field::serial, field::serial_bytes, "1");
  put_text(page, field::model, field::model_bytes, "gpufs software controller");
  put_text(page, field::firmware, field::firmware_bytes, "1");
  put(page, field::mdts, static_cast<std::uint8_t>(mdts));
  put(page, field::version, version);
  put(page, controller_type, io_controller);
  put(page, event_limit, static_cast<std::uint8_t>(most_events - 1));
  put(page, field::sqes, std::uint8_t{0x66});  // entries of 2^6 bytes, at least and at most
  put(page, field::cqes, std::uint8_t{0x44});
  put(page, field::namespaces, most_namespaces);
  put(page, field::commands, static_cast<std::uint16_t>(field::zeroes_bit));
  put(page, field::write_cache, std::uint8_t{1});
  // It ends with a zero byte.
  std::memcpy(page.data() + subsystem_name, subsystem.data(),
              std::min(subsystem_name_bytes - 1, subsystem.size()));
  return page;
}

identity_page namespace_identity(std::uint64_t blocks, std::uint32_t lba_bytes) {
  identity_page page{};
  put(page, field::blocks, blocks);
  put(page, field::capacity, blocks);
  put(page, field::used, blocks);
  // Format 0 without metadata; bits 16 to 23 have the logarithm of the block's size.
  put(page, field::formats, static_cast<std::uint32_t>(std::countr_zero(lba_bytes)) << 16);
  return page;
}

}  // namespace gpufs::nvme_controller
