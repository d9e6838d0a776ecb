// The I/O kernel that all applications share: it fills their arrays from their files.
#include <gpufs/gpufs.hpp>

#include <apps/harness/chunk_io.hpp>
#include <apps/harness/gread_files.hpp>
#include <apps/harness/loader.hpp>
#include <apps/harness/strips.hpp>

#include <stdexcept>
#include <vector>

namespace gpufs::apps {

namespace {

struct array_to_fill {
  unsigned file;     // its number in chunk_io
  std::byte* array;  // as long as the file
  file_section section;
};

struct arrays_to_fill {
  unsigned count;
  array_to_fill each[most_sections];
};

__global__ void __launch_bounds__(512) load_files(chunk_io files, arrays_to_fill arrays) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  for (unsigned i = 0; i < arrays.count; ++i) {
    array_to_fill const& a = arrays.each[i];
    int const fd = open_file(io, files, a.file);
    if (fd < 0) return;
    strip const mine = strip_of_section(a.section, gridDim.x, blockIdx.x);
    bool good = true;
    for (std::uint64_t at = mine.begin; good && at < mine.end; at += files.request) {
      std::uint64_t const count = mine.end - at < files.request ? mine.end - at : files.request;
      good = read_chunk(io, files, a.file, fd, a.array + at, count, at);
    }
    gclose(io, fd);
    if (!good) return;
  }
}

class gread_loader final : public loader {
 public:
  gread_loader(config const& settings, io_shape shape) : files_(settings), shape_(shape) {
    load_kernel(load_files);
  }

  void load(std::vector<load_item> const& items) override {
    statistics const before = files_.fs().stats();
    std::vector<data_file const*> from;
    arrays_to_fill arrays{};
    for (auto const& item : items) {
      for (auto const& section : item.from->sections) {
        if (arrays.count == most_sections)
          throw std::length_error("more sections than the I/O kernel reads");
        arrays.each[arrays.count++] = {static_cast<unsigned>(from.size()), item.to->data(),
                                       section};
      }
      from.push_back(item.from);
    }
    chunk_io const io = files_.access(from, shape_.request, false);
    launch(load_files, shape_.blocks, shape_.threads, io, arrays);
    this_thread_stream().synchronize();
    files_.require_success();
    counters_ = files_.fs().stats() - before;
  }

  [[nodiscard]] std::optional<statistics> counters() const override { return counters_; }

 private:
  gread_files files_;
  io_shape shape_;
  std::optional<statistics> counters_;
};

}  // namespace

std::unique_ptr<loader> make_gread_loader(config const& settings, io_shape shape) {
  return std::make_unique<gread_loader>(settings, shape);
}

}  // namespace gpufs::apps
