// The variant `managed`: files are read into memory that the driver moves between CPU and GPU.
#include <apps/common/program.hpp>
#include <apps/mapping/files/file_arrays.hpp>

#include <memory>

#if !defined(GPUFS_EMULATED)
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#endif

namespace gpufs::apps::workloads {

#if defined(GPUFS_EMULATED)

std::unique_ptr<file_arrays> make_managed_arrays(work_files&) {
  throw usage_error(
      "--variant managed: must be another variant, as the emulated device has no "
      "managed memory");
}

#else

namespace {

void check(cudaError_t result, char const* call) {
  if (result != cudaSuccess)
    throw device_error(std::string(call) + " failed: " + cudaGetErrorString(result));
}

class managed_bytes {
 public:
  explicit managed_bytes(std::uint64_t bytes) {
    check(cudaMallocManaged(&memory_, bytes), "cudaMallocManaged");
  }
  ~managed_bytes() { cudaFree(memory_); }
  managed_bytes(managed_bytes const&) = delete;
  managed_bytes& operator=(managed_bytes const&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

class managed_arrays final : public file_arrays {
 public:
  explicit managed_arrays(work_files& files) : files_(files) {}

  void map() override {
    for (unsigned i = 0; i < files_.objects().size(); ++i) {
      auto const& o = files_.object(i);
      memory_.push_back(std::make_unique<managed_bytes>(o.bytes));
      // Untouched managed memory reads as zeros.
      if (begins_with_bytes(o.use)) files_.read(i, 0, memory_.back()->data(), o.bytes);
    }
  }

  void unmap() override {
    gpufs::synchronize();
    for (unsigned i = 0; i < memory_.size(); ++i)
      if (is_written_home(files_.object(i).use)) write_home(i);
    memory_.clear();
  }

  void* address(unsigned i) const override { return memory_.at(i)->data(); }

  cpu_rows read(unsigned i, byte_rows const& what) override {
    gpufs::synchronize();
    return {memory_[i]->data() + what.first, what.pitch};
  }

  void write(unsigned i, std::uint64_t first, void const* from, std::uint64_t bytes) override {
    gpufs::synchronize();
    std::memcpy(memory_[i]->data() + first, from, bytes);
  }

  void make_durable(unsigned i) override {
    gpufs::synchronize();
    write_home(i).make_durable();
  }

 private:
  open_file_of write_home(unsigned i) {
    auto const& o = files_.object(i);
    open_file_of file(files_.path(i),
                      o.use == object_use::output ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR);
    file.write(memory_[i]->data(), o.bytes, 0);
    return file;
  }

  work_files& files_;
  std::vector<std::unique_ptr<managed_bytes>> memory_;
};

}  // namespace

std::unique_ptr<file_arrays> make_managed_arrays(work_files& files) {
  return std::make_unique<managed_arrays>(files);
}

#endif

}  // namespace gpufs::apps::workloads
