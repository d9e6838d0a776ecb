#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/settings.hpp>
#include <gpufs/shared_call.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <python/src/core.hpp>
#include <python/src/errors.hpp>
#include <python/src/gil.hpp>
#include <python/src/mapped.hpp>
#include <python/src/mapping.hpp>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

access access_named(std::string const& name) {
  if (name == "read") return access::read;
  if (name == "write") return access::write;
  if (name == "read_write") return access::read_write;
  throw nb::value_error(("access: must be read, write or read_write, not " + name).c_str());
}

/// The objects that the next launch on a stream uses.
class declared_launch {
 public:
  explicit declared_launch(std::optional<std::uint64_t> native) {
#if defined(GPUFS_EMULATED)
    if (native.has_value())
      throw nb::value_error("stream: the emulated device has none that others know; must be None");
#else
    stream_.emplace(stream::of(reinterpret_cast<CUstream_st*>(native.value_or(0))));
#endif
    call_.emplace(stream_.has_value() ? &*stream_ : nullptr);
  }
  ~declared_launch() {
    call_.reset();  // before the objects, whose end would wait for it
    end();
  }
  declared_launch(declared_launch const&) = delete;
  declared_launch& operator=(declared_launch const&) = delete;

  void uses(std::shared_ptr<mapped> const& m, std::string const& how) {
    access const a = access_named(how);
    if (a == access::read)
      call_->reads(m->object());
    else if (a == access::write)
      call_->writes(m->object());
    else
      call_->reads_writes(m->object());
    used_.push_back(m);
  }
  void release() {
    if (was_released_)
      throw std::runtime_error("gpufs.using() is for one `with` statement: make another one");
    for (auto const& m : used_) static_cast<void>(m->object());  // not closed
    was_released_ = true;
    {
      without_gil const no_gil;
      detail::release_or_throw(*call_);
    }
    by_ = std::this_thread::get_id();
    for (auto const& m : used_) m->declare(*by_);
  }
  void launched() {
    {
      without_gil const no_gil;
      call_->launched();
    }
    end();
  }

 private:
  void end() {
    if (by_.has_value())
      for (auto const& m : used_) m->undeclare(*by_);
    by_.reset();
  }

  std::optional<stream> stream_;
  std::optional<shared_call> call_;
  std::vector<std::shared_ptr<mapped>> used_;  // the objects live as long
  std::optional<std::thread::id> by_;          // the thread whose declaration is open
  bool was_released_ = false;
};

/// A shared_memory on one device.
class space {
 public:
  /// Without a number: on the current device.
  explicit space(std::optional<int> device) : process_(::getpid()) {
    without_gil const release;
    device_ = device.has_value() ? *device : current_device_number();
    device_scope const scope(device_);
    memory_ = std::make_unique<shared_memory>();
  }
  ~space() {
    std::optional<without_gil> release;
    if (PyGILState_Check() != 0) release.emplace();
    memory_.reset();
  }
  space(space const&) = delete;
  space& operator=(space const&) = delete;

  std::shared_ptr<mapped> map(std::string const& path, map_options const& options) {
    return listed([&] { return memory().map(path, options); }, path,
                  options.access == access::read);
  }
  std::shared_ptr<mapped> allocate(std::uint64_t bytes) {
    return listed([&] { return memory().allocate(bytes); }, "", false);
  }
  void synchronize() {
    without_gil const release;
    memory().synchronize();
  }
  nb::list notes() {
    nb::list all;
    for (auto const& line : memory().notes()) all.append(text_of_bytes(line));
    return all;
  }

 private:
  template <class Make>
  std::shared_ptr<mapped> listed(Make const& make, std::string const& path, bool only_read) {
    std::shared_ptr<mapped> made;
    {
      without_gil const release;
      made = std::make_shared<mapped>(make(), path, only_read, device_);
    }
    mapped::note(made);
    return made;
  }
  shared_memory& memory() {
    if (process_ != ::getpid())
      throw shared_memory_error(EPERM, "shared memory belongs to process " +
                                           std::to_string(process_) +
                                           ": a child of fork() must make its own");
    return *memory_;
  }

  std::unique_ptr<shared_memory> memory_;
  pid_t process_;
  int device_ = 0;
};

map_options options_of(std::string const& how, bool create, bool truncate, std::uint64_t length,
                       std::uint64_t offset, bool scratch, std::optional<bool> eager) {
  return {.access = access_named(how),
          .create = create,
          .truncate = truncate,
          .length = length,
          .offset = offset,
          .scratch = scratch,
          .eager = eager};
}

}  // namespace

void register_mapping(nb::module_& m) {
  nb::class_<mapped>(m, "MappedCore", "What gpufs.Mapping stands on.")
      .def("bytes", [](std::shared_ptr<mapped> const& held,
                       bool on_device) { return held->bytes(held, on_device); })
      .def("close", &mapped::close)
      .def("closed", &mapped::closed)
      .def("name", [](mapped& of) { return nb::bytes(of.name().data(), of.name().size()); })
      .def("only_read", &mapped::only_read)
      .def("size", [](mapped& of) { return of.object().size(); })
      .def("address",
           [](mapped& of) { return reinterpret_cast<std::uintptr_t>(of.object().data()); })
      .def("sync", [](mapped& of) { of.run_behind_kernels([](mapping& o) { return o.sync(); }); })
      .def("sync_range",
           [](mapped& of, std::uint64_t first, std::uint64_t bytes) {
             of.run_behind_kernels([&](mapping& o) { return o.sync(first, bytes); });
           })
      .def("write_back",
           [](mapped& of) { of.run_behind_kernels([](mapping& o) { return o.write_back(); }); })
      .def("refresh", [](mapped& of) { of.run([](mapping& o) { return o.refresh(); }); })
      .def("discard", [](mapped& of) { of.run([](mapping& o) { return o.discard(); }); })
      .def("prefetch",
           [](mapped& of, std::uint64_t first, std::uint64_t bytes) {
             of.run([&](mapping& o) { return o.prefetch_to_device(first, bytes); });
           })
      .def("errors", [](mapped& of) {
        nb::list all;
        for (auto const& line : of.object().errors()) all.append(text_of_bytes(line));
        return all;
      });
  nb::class_<declared_launch>(m, "LaunchCore", "What gpufs.using() stands on.")
      .def(nb::init<std::optional<std::uint64_t>>(), nb::arg("stream").none())
      .def("uses", &declared_launch::uses)
      .def("release", &declared_launch::release)
      .def("launched", &declared_launch::launched);
  nb::class_<space>(m, "SpaceCore", "What gpufs.SharedMemory stands on.")
      .def(nb::init<std::optional<int>>(), nb::arg("device").none())
      .def(
          "map",
          [](space& of, nb::bytes const& path, std::string const& how, bool create, bool truncate,
             std::uint64_t length, std::uint64_t offset, bool scratch, std::optional<bool> eager) {
            return of.map({path.c_str(), path.size()},
                          options_of(how, create, truncate, length, offset, scratch, eager));
          },
          nb::arg("path"), nb::arg("access"), nb::arg("create"), nb::arg("truncate"),
          nb::arg("length"), nb::arg("offset"), nb::arg("scratch"), nb::arg("eager").none())
      .def("allocate", &space::allocate)
      .def("synchronize", &space::synchronize)
      .def("notes", &space::notes);
}

}  // namespace gpufs::python
