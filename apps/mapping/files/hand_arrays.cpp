// The variant `hand`: a pipeline of threads between files and GPU memory.
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_pipeline.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

class hand_arrays final : public file_arrays {
 public:
  explicit hand_arrays(work_files& files)
      : files_(files), small_(files.objects().size() * small_bytes) {}

  void map() override {
    std::vector<whole_move> moves;
    for (unsigned i = 0; i < files_.objects().size(); ++i) {
      auto const& o = files_.object(i);
      device_.emplace_back(o.is_gathered ? 0 : o.bytes);
      if (o.use == object_use::scratch) device_.back().fill_zero();
      if (o.use == object_use::scratch) continue;
      int const flags = o.use == object_use::input     ? O_RDONLY
                        : o.use == object_use::updated ? O_RDWR
                                                       : O_RDWR | O_CREAT | O_TRUNC;
      auto const& file = open_.try_emplace(i, files_.path(i), flags).first->second;
      if (begins_with_bytes(o.use) && !o.is_gathered)
        moves.push_back({&file, device_.back().data(), o.bytes});
    }
    pipeline_.load(moves);
  }

  void unmap() override {
    store([](file_object const& o) { return is_written_home(o.use); });
    open_.clear();
    device_.clear();
    large_.clear();
  }

  void* address(unsigned i) const override { return device_.at(i).data(); }

  std::string own_file(unsigned i) const override {
    return files_.object(i).is_gathered ? files_.path(i) : "";
  }

  cpu_rows read(unsigned i, byte_rows const& what) override {
    if (files_.object(i).use == object_use::input) return read_file(i, what);
    if (what.row_bytes * what.rows > small_bytes) return read_large(i, what);
    std::byte* const to = room(i, what);
    auto& on = this_thread_stream();
    for (std::uint64_t r = 0; r < what.rows; ++r) {
      device_memory::copy_to_pinned(on, to + r * what.row_bytes,
                                    device_[i].data() + what.first + r * what.pitch,
                                    what.row_bytes);
    }
    on.synchronize();
    return {to, what.row_bytes};
  }

  void write(unsigned i, std::uint64_t first, void const* from, std::uint64_t bytes) override {
    gpufs::synchronize();
    device_[i].copy_from_host(static_cast<std::byte const*>(from), bytes, first);
  }

  void make_durable(unsigned i) override {
    gpufs::synchronize();
    auto const& mine = files_.object(i);
    store([&](file_object const& o) { return &o == &mine; });
    open_.at(i).make_durable();
  }

 private:
  /// Bytes of an input: the file has them.
  cpu_rows read_file(unsigned i, byte_rows const& what) {
    std::byte* const to = room(i, what);
    for (std::uint64_t r = 0; r < what.rows; ++r)
      open_.at(i).read(to + r * what.row_bytes, what.row_bytes, what.first + r * what.pitch);
    return {to, what.row_bytes};
  }

  /// Pinned memory for what the CPU reads of an object, or pageable memory for much of it.
  std::byte* room(unsigned i, byte_rows const& what) {
    std::uint64_t const bytes = what.row_bytes * what.rows;
    if (bytes <= small_bytes) return small_.data() + i * small_bytes;
    auto& memory = large_[i];
    if (!memory) memory.reset(new std::byte[files_.object(i).bytes]);
    return memory.get();
  }

  cpu_rows read_large(unsigned i, byte_rows const& what) {
    std::byte* const to = room(i, what);
    gpufs::synchronize();
    std::vector<whole_move> moves;
    for (std::uint64_t r = 0; r < what.rows; ++r) {
      moves.push_back({.file = nullptr,
                       .device = device_[i].data() + what.first + r * what.pitch,
                       .bytes = what.row_bytes,
                       .memory = to + r * what.row_bytes});
    }
    pipeline_.store(moves);
    return {to, what.row_bytes};
  }

  template <class Wanted>
  void store(Wanted const& is_wanted) {
    std::vector<whole_move> moves;
    for (unsigned i = 0; i < device_.size(); ++i) {
      auto const& o = files_.object(i);
      if (is_wanted(o)) moves.push_back({&open_.at(i), device_[i].data(), o.bytes});
    }
    pipeline_.store(moves);
  }

  work_files& files_;
  file_pipeline pipeline_;
  std::vector<buffer<std::byte>> device_;
  std::map<unsigned, open_file_of> open_;
  static constexpr std::uint64_t small_bytes = 1 << 20;
  pinned_buffer<std::byte> small_;  // a part for each object
  std::map<unsigned, std::unique_ptr<std::byte[]>> large_;
};

}  // namespace

std::unique_ptr<file_arrays> make_hand_arrays(work_files& files) {
  return std::make_unique<hand_arrays>(files);
}

}  // namespace gpufs::apps::workloads
