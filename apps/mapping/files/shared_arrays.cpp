// The variant `shared`: mappings of the files.
#include <gpufs/mapping_windows.hpp>

#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/nothing.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace gpufs::apps::workloads {

namespace {

class shared_arrays final : public file_arrays {
 public:
  shared_arrays(work_files& files, shared_memory& memory, mapped_how how)
      : files_(files), memory_(memory), how_(how) {}

  void map() override {
    for (unsigned i = 0; i < files_.objects().size(); ++i) mappings_.push_back(make(i));
  }

  void wait_for_files() override {
    if (how_.is_declared) return;  // a launch waits for what it declares
    shared_call call;
    for (unsigned i = 0; i < mappings_.size(); ++i)
      if (begins_with_bytes(files_.object(i).use)) call.reads(mappings_[i]);
    launch_nothing(call);
  }

  void unmap() override {
    for (unsigned i = 0; i < mappings_.size(); ++i) refuse_if(mappings_[i].unmap(), i);
    mappings_.clear();
  }

  void* address(unsigned i) const override { return mappings_.at(i).data(); }

  cpu_rows read(unsigned i, byte_rows const& what) override {
    if (files_.object(i).use != object_use::input) synchronize();
    return {mappings_[i].as<std::byte>() + what.first, what.pitch};
  }

  void write(unsigned i, std::uint64_t first, void const* from, std::uint64_t bytes) override {
    synchronize();
    std::memcpy(mappings_[i].as<std::byte>() + first, from, bytes);
  }

  void make_durable(unsigned i) override {
    synchronize();
    refuse_if(mappings_[i].sync(), i);
  }

  void synchronize() override { memory_.synchronize(); }

  void for_windows(std::initializer_list<windowed_use> uses, std::uint64_t,
                   window_body const& body) override {
    std::vector<windowed_object> objects;
    for (auto const& u : uses)
      objects.push_back({&mappings_.at(u.object), u.use, windowed_item_bytes});
    int const error = for_each_window(
        memory_, objects, [&body](memory_window const& w) { body(w.first, w.count, &w.on()); });
    if (error != 0) throw std::system_error(-error, std::generic_category(), "windows");
  }

  std::unique_ptr<shared_call> declare(std::initializer_list<kernel_use> uses) override {
    if (!how_.is_declared) return nullptr;
    auto call = std::make_unique<shared_call>();
    if (how_.is_profiled) call->profile(launch_name(uses));
    for (auto const& u : uses) {
      auto const& m = mappings_.at(u.object);
      std::uint64_t const bytes = std::min(u.bytes, m.size() - u.first);
      switch (u.use) {
        case access::read: call->reads(m, u.first, bytes); break;
        case access::write: call->writes(m, u.first, bytes); break;
        case access::read_write: call->reads_writes(m, u.first, bytes); break;
      }
    }
    return call;
  }

 private:
  // By what it uses: "offsets edges levels found".
  [[nodiscard]] std::string launch_name(std::initializer_list<kernel_use> uses) const {
    std::string name;
    for (auto const& u : uses) name += (name.empty() ? "" : " ") + files_.object(u.object).name;
    return name;
  }

  mapping make(unsigned i) {
    auto const& o = files_.object(i);
    map_options options;
    options.block = o.block;
    options.eager = how_.is_eager && begins_with_bytes(o.use);
    switch (o.use) {
      case object_use::scratch: return memory_.allocate(o.bytes, options);
      case object_use::input: options.access = access::read; break;
      case object_use::updated: options.access = access::read_write; break;
      case object_use::output:
        options.access = access::write;
        options.create = true;
        options.length = o.bytes;
        break;
    }
    return memory_.map(files_.path(i), options);
  }

  void refuse_if(int error, unsigned i) const {
    if (error != 0)
      throw std::system_error(-error, std::generic_category(), files_.object(i).name + ".mem");
  }

  work_files& files_;
  shared_memory& memory_;
  mapped_how const how_;
  std::vector<mapping> mappings_;
};

}  // namespace

std::unique_ptr<file_arrays> make_shared_arrays(work_files& files, shared_memory& memory,
                                                mapped_how how) {
  return std::make_unique<shared_arrays>(files, memory, how);
}

}  // namespace gpufs::apps::workloads
