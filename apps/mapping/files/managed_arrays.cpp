// The variant `managed`: files are read into memory that the driver moves between CPU and GPU.
#include <apps/common/managed_memory.hpp>
#include <apps/mapping/files/file_arrays.hpp>

#include <memory>

#if !defined(GPUFS_EMULATED)
#include <cstring>
#include <vector>

#include <fcntl.h>
#endif

namespace gpufs::apps::workloads {

#if defined(GPUFS_EMULATED)

std::unique_ptr<file_arrays> make_managed_arrays(work_files&, std::uint64_t) {
  managed_memory const refused(1);
  return nullptr;
}

#else

namespace {

class managed_arrays final : public file_arrays {
 public:
  managed_arrays(work_files& files, std::uint64_t device_bytes)
      : files_(files), ballast_(device_bytes) {}

  void map() override {
    for (unsigned i = 0; i < files_.objects().size(); ++i) {
      auto const& o = files_.object(i);
      memory_.push_back(std::make_unique<managed_memory>(o.bytes));
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
  device_ballast ballast_;
  std::vector<std::unique_ptr<managed_memory>> memory_;
};

}  // namespace

std::unique_ptr<file_arrays> make_managed_arrays(work_files& files, std::uint64_t device_bytes) {
  return std::make_unique<managed_arrays>(files, device_bytes);
}

#endif

}  // namespace gpufs::apps::workloads
