#include <gpufs/device.hpp>

#include <apps/bench/cufile.hpp>
#include <apps/bench/peer_rows.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

// The part of cuFile's binary interface that is used here, as its documentation has it.
struct cufile_error {
  int code;  // 0: success
  int of_cuda;
};
struct cufile_descriptor {
  int type;
  union {
    int fd;
    void* handle;
  } file;
  void const* operations;
};
constexpr int by_descriptor = 1;  // cufile_descriptor::type

class library {
 public:
  static library const& get() {
    static library const loaded;
    return loaded;
  }

  cufile_error (*register_file)(void** handle, cufile_descriptor* file) = nullptr;
  void (*deregister_file)(void* handle) = nullptr;
  ssize_t (*read)(void* handle, void* memory, std::size_t bytes, off_t offset, off_t at) = nullptr;

 private:
  library() {
    constexpr auto name = "libcufile.so.0";
    void* const all = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);  // it stays until the program ends
    if (all == nullptr) throw not_here(::dlerror());
    auto const find = [&](auto& function, char const* symbol) {
      void* const found = ::dlsym(all, symbol);
      if (found == nullptr) throw not_here(fmt::format("{} has no {}", name, symbol));
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    cufile_error (*open_driver)() = nullptr;
    find(open_driver, "cuFileDriverOpen");
    find(register_file, "cuFileHandleRegister");
    find(deregister_file, "cuFileHandleDeregister");
    find(read, "cuFileRead");
    if (auto const error = open_driver(); error.code != 0)
      throw not_here(fmt::format("cuFileDriverOpen: error {}", error.code));
  }
};

}  // namespace

cufile::cufile(host_file const& file) {
  if (current_device().kind == "emulated") throw not_here("needs a GPU");
  auto const& all = library::get();
  // A descriptor of its own: cuFile refuses flags that host_file's has (O_NONBLOCK, O_TMPFILE).
  fd_ = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), file.path());
  cufile_descriptor what{.type = by_descriptor, .file = {.fd = fd_}, .operations = {}};
  if (auto const error = all.register_file(&handle_, &what); error.code != 0) {
    ::close(fd_);
    throw not_here(fmt::format("cuFileHandleRegister: error {}", error.code));
  }
}

cufile::~cufile() {
  library::get().deregister_file(handle_);
  ::close(fd_);
}

void cufile::read(std::byte* memory, std::uint64_t bytes, std::uint64_t offset,
                  std::uint64_t at) const {
  for (std::uint64_t done = 0; done < bytes;) {
    auto const n =
        library::get().read(handle_, memory, bytes - done, off_t(offset + done), off_t(at + done));
    if (n <= 0)
      throw std::runtime_error(fmt::format("cuFileRead of {} bytes at {}: {}", bytes, offset, n));
    done += std::uint64_t(n);
  }
}

}  // namespace gpufs::apps
