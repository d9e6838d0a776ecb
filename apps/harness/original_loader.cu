// The I/O kernel through our model of GPUfs (apps/baseline), for comparison.
#include <gpufs/device.hpp>

#include <apps/baseline/original.hpp>
#include <apps/baseline/original_read.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/loader.hpp>
#include <apps/harness/strips.hpp>

#include <map>
#include <stdexcept>
#include <string>

namespace gpufs::apps {

namespace {

/// `failure`: 0, or the last result that was not what was asked for.
__global__ void __launch_bounds__(512)
    load_file(original::ref fs, file_section section, std::byte* array, std::uint64_t request,
              std::int32_t* failure) {
  strip const mine = strip_of_section(section, gridDim.x, blockIdx.x);
  for (std::uint64_t at = mine.begin; at < mine.end; at += request) {
    std::uint64_t const count = mine.end - at < request ? mine.end - at : request;
    ssize_t const got = original::gread(fs, array + at, count, static_cast<std::int64_t>(at));
    if (got == static_cast<ssize_t>(count)) continue;
    // Relaxed: any of them will do; the host reads after the kernel.
    if (threadIdx.x == 0)
      atomic_ref<std::int32_t, scope::device>(*failure).store(got < 0 ? got : -EIO,
                                                              memory_order_relaxed);
    return;
  }
}

class original_loader final : public loader {
 public:
  original_loader(original::options const& settings, io_shape shape)
      : options_(settings), shape_(shape), failure_(1) {
    load_kernel(load_file);
  }

  void prepare(std::vector<load_item> const& items) override {
    failure_.fill_zero();
    for (auto const& item : items)
      systems_.try_emplace(item.from, item.from->file.path(), options_);
  }

  void load(std::vector<load_item> const& items) override {
    for (auto const& item : items) {
      original::file_system& fs = systems_.at(item.from);
      for (auto const& section : item.from->sections) {
        launch(load_file, shape_.blocks, shape_.threads, fs.ref(), section, item.to->data(),
               shape_.request, failure_.data());
      }
      this_thread_stream().synchronize();
      std::int32_t error = 0;
      failure_.copy_to_host(&error, 1);
      if (error != 0)
        throw std::runtime_error("baseline, reading " + item.from->file.path() + ": " +
                                 error_text(error));
      if (!fs.failure().empty()) throw std::runtime_error("baseline: " + fs.failure());
    }
  }

 private:
  original::options options_;
  io_shape shape_;
  buffer<std::int32_t> failure_;
  std::map<data_file const*, original::file_system> systems_;
};

}  // namespace

std::unique_ptr<loader> make_original_loader(original::options const& settings, io_shape shape) {
  return std::make_unique<original_loader>(settings, shape);
}

}  // namespace gpufs::apps
