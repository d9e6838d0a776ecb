#include <apps/common/checksum.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/program.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

constexpr char const* version = "1";  // of the generators

/// The checksum of bytes that begin at `offset` of a file, as part of the file's.
std::uint64_t part_of_checksum(std::span<std::byte const> bytes, std::uint64_t offset) {
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::uint64_t>(8, bytes.size() - at));
    sum += checksum_term(word, (offset + at) / 8);
  }
  return sum;
}

/// `fill`, adding up the checksum on the way.
fill_function summing(fill_function const& fill, std::atomic<std::uint64_t>& sum) {
  return [&fill, &sum](std::uint64_t offset, std::span<std::byte> to) {
    fill(offset, to);
    sum.fetch_add(part_of_checksum(to, offset),
                  std::memory_order_relaxed);  // read after the threads have ended
  };
}

std::map<std::string, std::string> read_meta(std::string const& path) {
  std::map<std::string, std::string> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (auto const equals = line.find('='); equals != line.npos)
      all[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return all;
}

/// The checksum of a file of an earlier run, if its sidecar says that it is the one wanted.
std::optional<std::uint64_t> kept_checksum(std::string const& path, input_file const& wanted,
                                           std::string const& origin) {
  auto meta = read_meta(path + ".meta");
  std::error_code ignored;
  std::uint64_t checksum = 0;
  std::string const& text = meta["checksum"];
  bool const fits =
      meta["version"] == version && meta["origin"] == origin &&
      meta["bytes"] == std::to_string(wanted.bytes) &&
      std::filesystem::file_size(path, ignored) == wanted.bytes &&
      std::from_chars(text.data(), text.data() + text.size(), checksum, 16).ec == std::errc();
  return fits ? std::optional(checksum) : std::nullopt;
}

/// Makes the named file, under another name until it is whole. A file without a sidecar is not
/// ours, and stays as it is.
std::uint64_t make_named(std::string const& path, input_file const& wanted,
                         std::string const& origin) {
  std::string const sidecar = path + ".meta";
  std::error_code unknown;
  bool const is_there = std::filesystem::exists(path, unknown);
  if (unknown) throw usage_error(fmt::format("{}: {}", path, unknown.message()));
  if (is_there && !read_meta(sidecar).contains("origin")) {
    throw usage_error(
        fmt::format("{}: is there, and was not generated here ({} would say so): move it away, or "
                    "name another folder",
                    path, sidecar));
  }
  // The old file goes first, as there may be no room for both. It must be gone before another
  // sidecar speaks for it.
  std::error_code ignored;
  auto const old = std::filesystem::file_size(path, ignored);
  std::uint64_t const old_bytes = ignored ? 0 : old;
  require_free_space(folder_of(path), "--data", wanted.bytes - std::min(wanted.bytes, old_bytes));
  if (std::filesystem::remove(path, ignored))
    if (auto const error = make_folder_durable(folder_of(path)))
      throw std::system_error(error, path);
  unfinished_file const file(path);
  int const fd = file.open_part();
  if (fd < 0) throw usage_error(fmt::format("{}: {}", file.part(), error_text(errno)));
  std::atomic<std::uint64_t> sum{0};
  int const error = fill_file(fd, wanted.bytes, summing(wanted.fill, sum));
  ::close(fd);
  if (error != 0) {
    std::filesystem::remove(sidecar, ignored);
    throw std::system_error(error, std::generic_category(),
                            fmt::format("{} of {} bytes", path, wanted.bytes));
  }
  // Before the file has its name: a sidecar alone does no harm.
  write_whole_file(sidecar, fmt::format("version={}\norigin={}\nbytes={}\nchecksum={:016x}\n",
                                        version, origin, wanted.bytes, sum.load()));
  file.put_in_place();
  return sum;
}

}  // namespace

mapped_file::mapped_file(host_file const& file) {
  if (file.size() == 0) return;
  void* const memory = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), file.path());
  bytes_ = {static_cast<std::byte const*>(memory), file.size()};
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

mapped_file::mapped_file(mapped_file&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

data_set::data_set(std::vector<input_file> const& files, std::string const& origin,
                   std::string const& folder) {
  if (!folder.empty()) {
    if (auto const error = make_folders(folder))
      throw usage_error(fmt::format("{}, the folder of input files: {}", folder, error.message()));
  }
  for (auto const& f : files) {
    if (!f.path.empty()) {
      host_file real(f.path);
      if (real.size() != f.bytes) {
        throw usage_error(
            fmt::format("--input: {} has {} bytes: must have {}", f.path, real.size(), f.bytes));
      }
      mapped_file const map(real);
      std::uint64_t const sum = parallel_checksum(map.bytes());
      files_.push_back({std::move(real), f.sections, sum});
    } else if (folder.empty()) {
      std::atomic<std::uint64_t> sum{0};
      nameless_.push_back(
          std::make_unique<temp_file>(temp_folder(), f.bytes, summing(f.fill, sum)));
      files_.push_back({host_file(nameless_.back()->path()), f.sections, sum});
    } else {
      std::string const path = folder + "/" + f.name;
      auto const kept = kept_checksum(path, f, origin);
      std::uint64_t const sum = kept ? *kept : make_named(path, f, origin);
      files_.push_back({host_file(path), f.sections, sum});
    }
  }
}

mapped_inputs data_set::map() const {
  std::vector<mapped_file> maps;
  for (auto const& f : files_) maps.emplace_back(f.file);
  return mapped_inputs(std::move(maps));
}

std::string data_set::changed() const {
  mapped_inputs const maps = map();
  host_inputs const in = maps.view();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::uint64_t const now = parallel_checksum(in.files[i]);
    if (now != files_[i].checksum) {
      return fmt::format("{} is not as it was generated: its checksum is {:016x}, not {:016x}",
                         files_[i].file.path(), now, files_[i].checksum);
    }
  }
  return {};
}

std::uint64_t parallel_checksum(std::span<std::byte const> bytes) {
  std::atomic<std::uint64_t> sum{0};
  parallel_ranges(bytes.size(), 4 << 20, [&](std::uint64_t begin, std::uint64_t end) {
    sum.fetch_add(part_of_checksum(bytes.subspan(begin, end - begin), begin),
                  std::memory_order_relaxed);  // a sum: orders nothing
  });
  return sum;
}

}  // namespace gpufs::apps
