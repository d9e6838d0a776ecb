#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/settings.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <python/src/errors.hpp>
#include <python/src/mapping.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

/// A gpufs::mapping, and how many tensors see its memory.
class mapped {
 public:
  mapped(mapping object, std::string name, bool only_read, int device)
      : object_(std::move(object)),
        name_(std::move(name)),
        only_read_(only_read),
        device_(device),
        process_(::getpid()) {}
  ~mapped() {
    std::optional<nb::gil_scoped_release> release;
    if (PyGILState_Check() != 0) release.emplace();
    if (process_ != ::getpid()) {  // the object is the parent's
      static_cast<void>(new mapping(std::move(object_)));
      return;
    }
    object_ = {};
  }
  mapped(mapped const&) = delete;
  mapped& operator=(mapped const&) = delete;

  /// Throws ValueError: closed. Throws OSError: a child of fork().
  mapping& object() {
    if (process_ != ::getpid())
      throw_os_error(EPERM, "the mapping belongs to process " + std::to_string(process_) +
                                ": a child of fork() must make one of its own");
    if (closed_) throw nb::value_error("the mapping is closed");
    return object_;
  }

  /// Runs `act` on the object without the GIL. Throws OSError for a result other than 0.
  template <class Act>
  void run(Act const& act) {
    mapping& m = object();
    int error;
    {
      nb::gil_scoped_release const release;
      error = act(m);
    }
    if (error != 0) throw_os_error(error, std::strerror(-error), name_);
  }

  void close() {
    if (closed_) return;
    mapping& m = object();
    if (seen_.load(std::memory_order_relaxed) != 0) {
      PyErr_SetString(PyExc_BufferError,
                      "cannot close: tensors that see the memory of the mapping exist");
      throw nb::python_error();
    }
    closed_ = true;
    int error;
    {
      nb::gil_scoped_release const release;
      error = m.unmap();
    }
    if (error != 0) throw_os_error(error, std::strerror(-error), name_);
  }

  /// The memory as a tensor of bytes, for the host or for the device.
  nb::object bytes(std::shared_ptr<mapped> const& self, bool on_device) {
    mapping& m = object();
    seen_.fetch_add(1, std::memory_order_relaxed);
    nb::capsule const owner(new std::shared_ptr<mapped>(self), [](void* p) noexcept {
      std::unique_ptr<std::shared_ptr<mapped>> const held(static_cast<std::shared_ptr<mapped>*>(p));
      (*held)->seen_.fetch_sub(1, std::memory_order_relaxed);
    });
    std::size_t const size = m.size();
    if (on_device)
      return nb::cast(nb::ndarray<nb::array_api, std::uint8_t>(m.data(), {size}, owner, {},
                                                               nb::dtype<std::uint8_t>(),
                                                               nb::device::cuda::value, device_));
    if (only_read_)
      return nb::cast(nb::ndarray<nb::numpy, std::uint8_t const>(m.data(), {size}, owner));
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(m.data(), {size}, owner));
  }

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] bool only_read() const { return only_read_; }

 private:
  mapping object_;
  std::string name_;
  bool only_read_;
  int device_;
  pid_t process_;
  bool closed_ = false;  // guarded by the GIL
  std::atomic<unsigned> seen_{0};
};

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
  void uses(mapped& m, std::string const& how) {
    access const a = access_named(how);
    if (a == access::read)
      call_->reads(m.object());
    else if (a == access::write)
      call_->writes(m.object());
    else
      call_->reads_writes(m.object());
  }
  void release() {
    int error;
    {
      nb::gil_scoped_release const no_gil;
      error = call_->release();
    }
    if (error == 0) return;
    std::string const why = call_->why_refused();
    throw_os_error(error, why.empty() ? std::strerror(-error) : why);
  }
  void launched() {
    nb::gil_scoped_release const no_gil;
    call_->launched();
  }

 private:
  std::optional<stream> stream_;
  std::optional<shared_call> call_;
};

/// A shared_memory on one device.
class space {
 public:
  space() : memory_(std::make_unique<shared_memory>()), process_(::getpid()) {
    device_ = current_device_number();
  }
  ~space() {
    std::optional<nb::gil_scoped_release> release;
    if (PyGILState_Check() != 0) release.emplace();
    memory_.reset();
  }
  space(space const&) = delete;
  space& operator=(space const&) = delete;

  std::shared_ptr<mapped> map(std::string const& path, map_options const& options) {
    nb::gil_scoped_release const release;
    return std::make_shared<mapped>(memory().map(path, options), path,
                                    options.access == access::read, device_);
  }
  std::shared_ptr<mapped> allocate(std::uint64_t bytes) {
    nb::gil_scoped_release const release;
    return std::make_shared<mapped>(memory().allocate(bytes), "", false, device_);
  }
  void synchronize() {
    nb::gil_scoped_release const release;
    memory().synchronize();
  }
  nb::list notes() {
    nb::list all;
    for (auto const& line : memory().notes()) all.append(nb::str(line.c_str(), line.size()));
    return all;
  }

 private:
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
      .def("sync", [](mapped& of) { of.run([](mapping& o) { return o.sync(); }); })
      .def("sync_range",
           [](mapped& of, std::uint64_t first, std::uint64_t bytes) {
             of.run([&](mapping& o) { return o.sync(first, bytes); });
           })
      .def("write_back", [](mapped& of) { of.run([](mapping& o) { return o.write_back(); }); })
      .def("refresh", [](mapped& of) { of.run([](mapping& o) { return o.refresh(); }); })
      .def("discard", [](mapped& of) { of.run([](mapping& o) { return o.discard(); }); })
      .def("prefetch",
           [](mapped& of, std::uint64_t first, std::uint64_t bytes) {
             of.run([&](mapping& o) { return o.prefetch_to_device(first, bytes); });
           })
      .def("errors", [](mapped& of) {
        nb::list all;
        for (auto const& line : of.object().errors())
          all.append(nb::str(line.c_str(), line.size()));
        return all;
      });
  nb::class_<declared_launch>(m, "LaunchCore", "What gpufs.using() stands on.")
      .def(nb::init<std::optional<std::uint64_t>>(), nb::arg("stream").none())
      .def("uses", &declared_launch::uses)
      .def("release", &declared_launch::release)
      .def("launched", &declared_launch::launched);
  nb::class_<space>(m, "SpaceCore", "What gpufs.SharedMemory stands on.")
      .def(nb::init<>())
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
