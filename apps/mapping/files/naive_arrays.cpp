// The variant `naive`: whole files through stdio and pageable memory.
#include <apps/mapping/files/file_arrays.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace gpufs::apps::workloads {

namespace {

[[noreturn]] void refuse(std::string const& path) {
  throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), path);
}

struct stdio_closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using stdio_file = std::unique_ptr<std::FILE, stdio_closer>;

stdio_file open_stdio(std::string const& path, char const* mode) {
  errno = 0;
  stdio_file f(std::fopen(path.c_str(), mode));
  if (!f) refuse(path);
  return f;
}

class naive_arrays final : public file_arrays {
 public:
  explicit naive_arrays(work_files& files) : files_(files), arrays_(files.objects().size()) {}

  void map() override {
    for (unsigned i = 0; i < arrays_.size(); ++i) {
      auto const& o = files_.object(i);
      arrays_[i].device = buffer<std::byte>(o.bytes);
      if (o.use == object_use::scratch) arrays_[i].device.fill_zero();
      if (!begins_with_bytes(o.use)) continue;
      auto const file = open_stdio(files_.path(i), "rb");
      std::byte* const host = host_of(i);
      if (std::fread(host, 1, o.bytes, file.get()) != o.bytes) refuse(files_.path(i));
      arrays_[i].device.copy_from_host(host, o.bytes);
    }
  }

  void unmap() override {
    for (unsigned i = 0; i < arrays_.size(); ++i) {
      if (is_written_home(files_.object(i).use)) write_home(i, false);
      arrays_[i] = {};
    }
  }

  void* address(unsigned i) const override { return arrays_.at(i).device.data(); }

  cpu_rows read(unsigned i, byte_rows const& what) override {
    std::byte* const host = host_of(i) + what.first;
    std::uint64_t const pitch = what.rows == 1 ? what.row_bytes : what.pitch;
    // The CPU's bytes of an input are as good as the device's.
    if (files_.object(i).use != object_use::input) {
      gpufs::synchronize();
      for (std::uint64_t r = 0; r < what.rows; ++r)
        arrays_[i].device.copy_to_host(host + r * pitch, what.row_bytes, what.first + r * pitch);
    }
    return {host, pitch};
  }

  void write(unsigned i, std::uint64_t first, void const* from, std::uint64_t bytes) override {
    gpufs::synchronize();
    arrays_[i].device.copy_from_host(static_cast<std::byte const*>(from), bytes, first);
  }

  void make_durable(unsigned i) override {
    gpufs::synchronize();
    write_home(i, true);
  }

 private:
  struct array {
    buffer<std::byte> device;
    std::unique_ptr<std::byte[]> host;
  };

  /// The CPU's bytes. They are not set.
  std::byte* host_of(unsigned i) {
    auto& host = arrays_.at(i).host;
    if (!host) host.reset(new std::byte[files_.object(i).bytes]);
    return host.get();
  }

  void write_home(unsigned i, bool is_durable) {
    auto const& o = files_.object(i);
    std::byte* const host = host_of(i);
    arrays_[i].device.copy_to_host(host, o.bytes);
    auto const file = open_stdio(files_.path(i), o.use == object_use::output ? "wb" : "r+b");
    if (std::fwrite(host, 1, o.bytes, file.get()) != o.bytes || std::fflush(file.get()) != 0)
      refuse(files_.path(i));
    if (is_durable && ::fdatasync(::fileno(file.get())) != 0) refuse(files_.path(i));
  }

  work_files& files_;
  std::vector<array> arrays_;
};

}  // namespace

std::unique_ptr<file_arrays> make_naive_arrays(work_files& files) {
  return std::make_unique<naive_arrays>(files);
}

}  // namespace gpufs::apps::workloads
