// The extension module gpufs._gpufs. The package in python/gpufs/ makes the public names of it.
#include <gpufs/gpufs.hpp>
#include <gpufs/settings.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <python/src/core.hpp>
#include <python/src/errors.hpp>
#include <python/src/frees.hpp>
#include <python/src/gil.hpp>
#include <python/src/make_core.hpp>
#include <python/src/mapping.hpp>
#include <python/src/tensor.hpp>
#include <python/src/transfer.hpp>
#include <python/src/transfer_check.hpp>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

std::string text_of(std::int64_t error) { return std::strerror(int(-error)); }

/// Runs `act` on the filesystem without the GIL. Throws OSError for a negative result.
template <class Act>
std::int64_t run(core& of, std::string const& name, Act const& act) {
  std::int64_t result;
  {
    without_gil const release;
    core::call files(of);
    result = act(*files);
  }
  if (result < 0) throw_os_error(result, text_of(result), name);
  return result;
}

/// The same on an open file. `use`: as for throw_file_error().
std::int64_t run(core& of, int fd, char const* use, auto const& act) {
  std::int64_t result;
  {
    without_gil const release;
    core::call files(of);
    result = act(*files);
  }
  if (result < 0) throw_file_error(result, fd, of.path_of(fd), use);
  return result;
}

constexpr char reading[] = "reading", writing[] = "writing";

int open_file(core& of, nb::bytes const& encoded, int flags, unsigned mode) {
  std::string const path(encoded.c_str(), encoded.size());
  int const fd =
      int(run(of, path, [&](filesystem& files) { return files.open(path, flags, mode); }));
  of.note_open(fd, path);
  return fd;
}

void close_file(core& of, int fd) {
  std::int64_t result;
  std::string path;
  {
    without_gil const release;
    core::call files(of);
    path = of.forget_open(fd);
    result = files->close(fd);
  }
  if (result < 0) throw_file_error(result, fd, path);
}

nb::bytes read_bytes(core& of, int fd, std::uint64_t count, std::int64_t offset) {
  nb::bytes const result =
      nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(count)));
  if (!result.is_valid()) throw nb::python_error();
  auto const got = std::uint64_t(run(of, fd, reading, [&](filesystem& files) {
    return files.read(fd, PyBytes_AS_STRING(result.ptr()), count, offset);
  }));
  return got == count ? result : nb::bytes(result.c_str(), got);
}

nb::dict status_of(core& of, int fd) {
  file_status s{};
  run(of, fd, nullptr, [&](filesystem& files) { return std::int64_t(files.stat(fd, s)); });
  nb::dict d;
  d["size"] = s.size;
  d["mtime_ns"] = s.mtime_ns;
  d["ctime_ns"] = s.ctime_ns;
  d["device"] = s.device;
  d["inode"] = s.inode;
  d["mode"] = s.mode;
  d["block_size"] = s.block_size;
  return d;
}

nb::dict counters_of(core& of) {
  statistics s;
  run(of, "", [&](filesystem& files) {
    s = files.stats();
    return 0;
  });
  nb::dict d;
#define GPUFS_ENTRY(name, help) d[#name] = s.name;
  GPUFS_DEVICE_COUNTERS(GPUFS_ENTRY)
  GPUFS_HOST_COUNTERS(GPUFS_ENTRY)
#undef GPUFS_ENTRY
  return d;
}

nb::dict settings_of(core& of) {
  nb::dict d;
  core::use files(of);
  for (auto const& s : settings())
    d[nb::str(s.key.data(), s.key.size())] = text_of_bytes(s.print(files->settings()));
  return d;
}

void close_core(core& of) {
  of.finish_transfers(std::nullopt);
  int error;
  {
    without_gil const release;
    error = of.close();
  }
  if (error != 0)
    throw_os_error(error, text_of(error) + ": bytes that could not be written are lost");
}

fs_ref ref_of(core& of) {
  core::use files(of);
  return files->ref();
}

std::shared_ptr<transfer> start_transfer(core& of, int fd, nb::handle offsets, std::uint64_t size,
                                         nb::handle data, bool writes,
                                         std::optional<std::uint64_t> stream, bool staged,
                                         bool unchecked, nb::object stream_owner) {
  return transfer::start(of.shared_from_this(),
                         {.fd = fd,
                          .writes = writes,
                          .size = size,
                          .stream = stream,
                          .unchecked = unchecked,
                          .staged = staged},
                         tensor(offsets, false, "offsets"),
                         tensor(data, !writes, writes ? "data" : "out"), std::move(stream_owner));
}

void give_up_memory(void* memory) noexcept {
  std::optional<without_gil> release;
  if (PyGILState_Check() != 0) release.emplace();
  std::unique_ptr<std::shared_ptr<buffer<std::byte>>> const held(
      static_cast<std::shared_ptr<buffer<std::byte>>*>(memory));
  std::uint64_t const bytes = (*held)->bytes();
  free_between_transfers(std::move(*held), bytes);
}

/// Device memory for records, which other packages take through DLPack. Offsets in host memory are
/// checked before, as transfer::start() checks them.
nb::object device_bytes(core& of, int fd, nb::handle offsets, std::uint64_t size) {
  auto memory = std::make_unique<std::shared_ptr<buffer<std::byte>>>();
  tensor const places(offsets, false, "offsets");
  std::uint64_t const records = records_in(places);
  {
    core::call const files(of);
    if (!places.on_device())
      static_cast<void>(check_records(*files, {.fd = fd, .size = size}, places, of.path_of(fd)));
    without_gil const release;
    *memory = std::make_shared<buffer<std::byte>>(
        allocate<std::byte>(device_memory::array_bytes(records, size, "gpufs.gather")));
  }
  void* const data = (*memory)->data();
  nb::capsule const owner(memory.release(), &give_up_memory);
#if defined(GPUFS_EMULATED)
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(data, {records, size}, owner));
#else
  return nb::cast(nb::ndarray<nb::array_api, std::uint8_t>(data, {records, size}, owner, {},
                                                           nb::dtype<std::uint8_t>(),
                                                           nb::device::cuda::value, of.device()));
#endif
}

nb::list lines_of(std::vector<std::string> const& lines) {
  nb::list all;
  for (auto const& line : lines) all.append(text_of_bytes(line));
  return all;
}

/// Bytes of a host buffer, written to the file.
std::int64_t write_bytes(core& of, int fd, nb::handle bytes, std::int64_t offset) {
  tensor const from(bytes, false, "data");
  if (from.on_device())
    throw nb::value_error("data: must be in host memory; scatter() takes device memory");
  return run(of, fd, writing,
             [&](filesystem& files) { return files.write(fd, from.data(), from.bytes(), offset); });
}

std::int64_t read_into(core& of, int fd, nb::handle buffer, std::int64_t offset) {
  tensor const to(buffer, true, "buffer");
  if (to.on_device())
    throw nb::value_error("buffer: must be in host memory; gather() takes device memory");
  return run(of, fd, reading,
             [&](filesystem& files) { return files.read(fd, to.data(), to.bytes(), offset); });
}

void register_files(nb::class_<core>& c) {
  c.def("open", &open_file)
      .def("close_file", &close_file)
      .def("finish_transfers", &core::finish_transfers, nb::arg("fd").none())
      .def("status", &status_of)
      .def("read", &read_bytes)
      .def("read_into", &read_into, nb::arg("fd"), nb::arg("buffer").none(), nb::arg("offset"))
      .def("write", &write_bytes, nb::arg("fd"), nb::arg("data").none(), nb::arg("offset"))
      .def("sync",
           [](core& of, int fd) {
             run(of, fd, nullptr, [&](filesystem& files) { return files.sync(fd); });
           })
      .def("sync_all",
           [](core& of) { run(of, "", [&](filesystem& files) { return files.sync(); }); })
      .def("discard",
           [](core& of, int fd) {
             run(of, fd, nullptr, [&](filesystem& files) { return files.discard(fd); });
           })
      .def("advise",
           [](core& of, int fd, std::int64_t offset, std::int64_t length, int what) {
             run(of, fd, nullptr, [&](filesystem& files) {
               return files.advise(fd, offset, length, static_cast<advice>(what));
             });
           })
      .def("start", &start_transfer, nb::arg("fd"), nb::arg("offsets"), nb::arg("size"),
           nb::arg("data").none(), nb::arg("writes"), nb::arg("stream").none(), nb::arg("staged"),
           nb::arg("unchecked") = false, nb::arg("stream_owner").none() = nb::none())
      .def("device_bytes", &device_bytes);
}

void register_filesystem(nb::module_& m) {
  nb::class_<transfer>(m, "Transfer", "Records on their way between a file and a tensor.")
      .def("wait", &transfer::wait,
           "Waits until all records have been moved. Raises what went wrong.")
      .def("done", &transfer::done, "True once wait() need not wait.");

  nb::class_<core> c(m, "Core", "What gpufs.Filesystem stands on.", nb::is_weak_referenceable());
  register_files(c);
  c.def("close", &close_core)
      .def("closed", &core::closed)
      .def("device", &core::device)
      .def("counters", &counters_of)
      .def("settings", &settings_of)
      .def("notes",
           [](core& of) {
             core::use const files(of);
             return lines_of(files->notes());
           })
      .def("unwritten",
           [](core& of) {
             std::vector<std::string> lines;
             run(of, "", [&](filesystem& files) {
               lines = files.unwritten();
               return 0;
             });
             return lines_of(lines);
           })
      .def("backend",
           [](core& of) {
             core::use const files(of);
             return files->backend_name();
           })
      .def("ref",
           [](core& of) {
             fs_ref const ref = ref_of(of);
             return nb::bytes(reinterpret_cast<char const*>(&ref), sizeof(ref));
           })
      .def("ref_address",
           [](core& of) { return reinterpret_cast<std::uintptr_t>(ref_of(of).self); });
  m.def("make_core", &make_core, nb::arg("settings"), nb::arg("overrides"),
        nb::arg("device").none());
}

}  // namespace

NB_MODULE(_gpufs, m) {
  register_errors(m);
  register_filesystem(m);
  register_mapping(m);
#if defined(GPUFS_EMULATED)
  m.attr("device_kind") = "emulated";
#else
  m.attr("device_kind") = "cuda";
#endif
  // Handlers run in reverse order: those of the package close filesystems before.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_of_python));
  m.attr("version") = GPUFS_PYTHON_VERSION;
  m.attr("O_GWRONCE") = O_GWRONCE;
  m.def("device_available", &device_available);
  m.def("byte_count", [](nb::object const& of) { return tensor(of, false, "tensor").bytes(); });
  m.def("record_count",
        [](nb::object const& of) { return records_in(tensor(of, false, "offsets")); });
  m.def("setting_names", [] {
    nb::dict d;
    for (auto const& s : settings())
      d[nb::str(s.key.data(), s.key.size())] = nb::str(s.help.data(), s.help.size());
    return d;
  });
}

}  // namespace gpufs::python
