#include <gpufs/nvme.hpp>

#include <apps/bench/block_input.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>

namespace gpufs::apps {

namespace {

constexpr char attached_name[] = "bench";

std::vector<host_file> open_members(std::vector<std::string> const& paths) {
  std::vector<host_file> all;
  for (auto const& path : paths) {
    try {
      all.emplace_back(path);
    } catch (std::system_error const& e) {
      throw usage_error(fmt::format("--file: member {}: {}", path, e.code().message()));
    }
  }
  return all;
}

/// Bytes of a member's blocks, as its controller has them: the last one is filled up with zeros.
std::uint64_t bytes_of_blocks(host_file const& member) {
  constexpr std::uint64_t block = nvme::software_options{}.lba;
  return (member.size() + block - 1) / block * block;
}

void read_blocks(host_file const& member, std::byte* to, std::uint64_t count, std::uint64_t at) {
  std::uint64_t const there = at < member.size() ? std::min(count, member.size() - at) : 0;
  if (there != 0) member.read(to, there, at);
  std::fill(to + there, to + count, std::byte{0});
}

std::unique_ptr<temp_file> copy_of_members(nvme_spec const& spec, std::string const& folder) {
  auto const members = open_members(spec.members);
  std::uint64_t least = ~std::uint64_t{0};
  for (auto const& each : members) least = std::min(least, bytes_of_blocks(each));
  std::uint64_t const stripe = stripe_of(spec);  // as attach() has it
  std::uint64_t const bytes = least / stripe * stripe * members.size();
  if (bytes == 0)
    throw usage_error(fmt::format("--file: a member has {} bytes, stripes have {}", least, stripe));
  return std::make_unique<temp_file>(
      folder, bytes, [&](std::uint64_t offset, std::span<std::byte> to) {
        for (std::uint64_t at = 0; at < to.size();) {
          std::uint64_t const number = (offset + at) / stripe, within = (offset + at) % stripe;
          std::uint64_t const here = std::min(stripe - within, to.size() - at);
          read_blocks(members[number % members.size()], to.data() + at, here,
                      number / members.size() * stripe + within);
          at += here;
        }
      });
}

std::unique_ptr<temp_file> copy_of_drives(nvme_spec const& spec, std::string const& folder,
                                          std::uint64_t most) {
  config c;
  c.cache_size = 1 << 20;
  c.staging_size = 16 << 20;
  filesystem fs(c);
  attach(fs, attached_name, spec);
  int const fd = fs.open(std::string("nvme:") + attached_name, O_RDONLY);
  file_status status{};
  if (int const error = fd < 0 ? fd : fs.stat(fd, status); error < 0)
    throw std::runtime_error(fmt::format("--file: {}", error_text(error)));
  std::atomic<std::int64_t> failure{0};
  auto made = std::make_unique<temp_file>(
      folder, std::min(most, status.size), [&](std::uint64_t offset, std::span<std::byte> to) {
        auto const got = fs.read(fd, to.data(), to.size(), std::int64_t(offset));
        if (got != std::int64_t(to.size())) failure = got < 0 ? got : -EIO;
      });
  if (failure != 0) throw std::runtime_error(fmt::format("--file: {}", error_text(failure)));
  return made;
}

/// Returns 0 or -errno.
int write_all(filesystem& fs, std::string const& path, host_file const& file) {
  constexpr std::uint64_t piece = 1 << 20;
  int const fd = fs.open(path, O_RDWR);
  if (fd < 0) return fd;
  std::vector<std::byte> bytes(piece);
  for (std::uint64_t at = 0; at < file.size(); at += piece) {
    std::uint64_t const here = std::min(piece, file.size() - at);
    file.read(bytes.data(), here, at);
    auto const put = fs.write(fd, bytes.data(), here, std::int64_t(at));
    if (put == std::int64_t(here)) continue;
    fs.close(fd);
    return put < 0 ? int(put) : -EIO;
  }
  return fs.close(fd);
}

}  // namespace

std::unique_ptr<temp_file> copy_of(nvme_spec const& spec, std::string const& folder,
                                   std::uint64_t most, std::uint64_t seed) {
  switch (spec.kind) {
    case nvme_spec::kinds::memory: return std::make_unique<temp_file>(folder, spec.bytes, seed);
    case nvme_spec::kinds::software: return copy_of_members(spec, folder);
    case nvme_spec::kinds::vfio: break;
  }
  return copy_of_drives(spec, folder, most);
}

int open_for_kernels(filesystem& fs, host_file const& file) {
  if (!is_nvme_spec(file.kernel_path())) return fs.open(file.kernel_path(), O_RDONLY);
  nvme_spec const spec = parse_nvme_spec(file.kernel_path());
  attach(fs, attached_name, spec);
  std::string const path = std::string("nvme:") + attached_name;
  if (spec.kind == nvme_spec::kinds::memory)
    if (int const error = write_all(fs, path, file); error != 0) return error;
  return fs.open(path, O_RDONLY);
}

std::uint64_t commands_of_kernels(filesystem const& fs, host_file const& file) {
  if (!is_nvme_spec(file.kernel_path())) return 0;
  return fs.attachment_stats(attached_name).device_commands;
}

void close_for_kernels(filesystem& fs, int fd) {
  fs.close(fd);
  static_cast<void>(fs.detach(attached_name));  // -ENOENT: it was another file
}

}  // namespace gpufs::apps
