// The C interface: <gpufs/gpufs.h> over gpufs::filesystem.
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>
#include <gpufs/gpufs.h>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/settings_text.hpp>
#include <gpufs/settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

/// What the pointers of the C interface point to.
struct gpufs_filesystem {
  gpufs::filesystem files;
  pid_t process = ::getpid();
};

namespace gpufs::owner {

namespace {

thread_local std::string last_error;

/// Keeps the text, which is empty if there is no memory for it. Returns `error`.
template <class... Args>
int failed(int error, fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    last_error = fmt::format(text, std::forward<Args>(args)...);
  } catch (...) {
    last_error.clear();
  }
  return error;
}

/// The -errno of the exception that is being handled. Keeps its text.
int failed_by_exception() noexcept {
  try {
    throw;
  } catch (config_error const& error) {
    return failed(-EINVAL, "{}", error.what());
  } catch (no_memory const& error) {
    return failed(-ENOMEM, "{}", error.what());
  } catch (device_error const& error) {
    return failed(device_available() ? -EIO : -ENODEV, "{}", error.what());
  } catch (std::system_error const& error) {
    return failed(-error.code().value(), "{}", error.what());
  } catch (std::bad_alloc const&) {
    return failed(-ENOMEM, "no memory left");
  } catch (std::exception const& error) {
    return failed(-EIO, "{}", error.what());
  }
}

/// What would be right, as ": ..." behind the text of an error. Empty: that text says it all.
using remedy = std::string;

remedy no_remedy(int) { return {}; }

/// For calls on `fd`, which must be `open`.
auto of_descriptor(int fd, char const* open = "open") {
  return [fd, open](int error) -> remedy {
    return error == -EBADF ? fmt::format(": fd={}: must be {}", fd, open) : remedy();
  };
}

/// For calls on `count` bytes from `offset` of `fd`, which must be `open`.
auto of_bytes(int fd, char const* open, std::uint64_t count, std::int64_t offset) {
  return [=](int error) -> remedy {
    if (error == -EINVAL && offset < 0) return fmt::format(": offset={}: must be >= 0", offset);
    auto const ends_beyond = [&](unsigned bits) {
      std::uint64_t const end = std::uint64_t{1} << bits, first = std::uint64_t(offset);
      return first > end || count > end - first;
    };
    unsigned const bits = error == -EINVAL ? 63 : error == -EFBIG ? 48 : 0;
    if (bits != 0 && ends_beyond(bits))
      return fmt::format(": count={}, offset={}: must end at or before 2^{}", count, offset, bits);
    return of_descriptor(fd, open)(error);
  };
}

auto of_write(int fd, std::uint64_t count, std::int64_t offset) {
  return [=](int error) -> remedy {
    if (error == -EOPNOTSUPP)
      return fmt::format(": fd={}: is open with O_APPEND: append in a kernel", fd);
    return of_bytes(fd, "open for writing", count, offset)(error);
  };
}

auto of_flags(int flags) {
  return [flags](int error) -> remedy {
    if (error == -EOPNOTSUPP) return ": must be a regular file";
    if (error != -EINVAL) return {};
    return fmt::format(
        ": flags={:#x}: must be O_RDONLY, O_WRONLY, O_RDWR or O_GWRONCE, with any of O_CREAT, "
        "O_EXCL, O_TRUNC (not with O_RDONLY), O_APPEND (not with O_GWRONCE), O_NOFOLLOW; for a "
        "block file alone",
        unsigned(flags));
  };
}

auto of_advice(int fd, std::int64_t offset, std::int64_t length, int advice) {
  return [=](int error) -> remedy {
    if (error != -EINVAL) return of_descriptor(fd)(error);
    if (offset < 0) return fmt::format(": offset={}: must be >= 0", offset);
    if (length < 0) return fmt::format(": length={}: must be >= 0", length);
    return fmt::format(": advice={}: must be from {} to {}", advice, int(GPUFS_ADVICE_NORMAL),
                       int(GPUFS_ADVICE_DONTNEED));
  };
}

/// Has `act` work on the files of `fs`. A negative result becomes the last error. The text names
/// `path`, if there is one, and ends with `right` of the result.
template <class Act, class Right = remedy (*)(int)>
std::int64_t with_files(char const* call, gpufs_filesystem* fs, bool pointers, Act const& act,
                        Right const& right = no_remedy, char const* path = nullptr) noexcept {
  if (fs == nullptr || !pointers) return failed(-EFAULT, "{}: a null pointer", call);
  if (fs->process != ::getpid())
    return failed(-EPERM,
                  "{}: the filesystem belongs to process {}; a child of fork() makes one of its "
                  "own",
                  call, fs->process);
  try {
    std::int64_t const result = act(fs->files);
    if (result >= 0) return result;
    char const* const why = std::strerror(int(-result));
    remedy const then = right(int(result));
    if (path == nullptr) return failed(int(result), "{}: {}{}", call, why, then);
    return failed(int(result), "{}: {}: {}{}", call, path, why, then);
  } catch (...) {
    return failed_by_exception();
  }
}

}  // namespace

extern "C" {

int gpufs_create(char const* settings, gpufs_filesystem** made) {
  if (made == nullptr) return failed(-EFAULT, "gpufs_create: a null pointer");
  *made = nullptr;
  try {
    config defaults;
    load_text(defaults, settings != nullptr ? settings : "");
    *made = new gpufs_filesystem{.files = filesystem(load_config(defaults))};
    return 0;
  } catch (...) {
    return failed_by_exception();
  }
}

int gpufs_destroy(gpufs_filesystem* fs) {
  if (fs == nullptr) return 0;
  int error = 0;
  if (fs->process == ::getpid()) {
    error = fs->files.sync();
    if (error != 0)
      failed(error, "gpufs_destroy: {}: bytes that were not written are lost",
             std::strerror(-error));
  }
  delete fs;
  return error;
}

int gpufs_open(gpufs_filesystem* fs, char const* path, int flags, unsigned mode) {
  if (fs == nullptr || path == nullptr) return failed(-EFAULT, "gpufs_open: a null pointer");
  return int(with_files(
      "gpufs_open", fs, true, [&](filesystem& files) { return files.open(path, flags, mode); },
      of_flags(flags), path));
}

int gpufs_close(gpufs_filesystem* fs, int fd) {
  return int(with_files(
      "gpufs_close", fs, true, [&](filesystem& files) { return files.close(fd); },
      of_descriptor(fd)));
}

std::int64_t gpufs_size(gpufs_filesystem* fs, int fd) {
  return with_files(
      "gpufs_size", fs, true,
      [&](filesystem& files) {
        file_status status{};
        int const error = files.stat(fd, status);
        return error != 0 ? std::int64_t(error) : std::int64_t(status.size);
      },
      of_descriptor(fd));
}

std::int64_t gpufs_read(gpufs_filesystem* fs, int fd, void* bytes, std::uint64_t count,
                        std::int64_t offset) {
  return with_files(
      "gpufs_read", fs, bytes != nullptr || count == 0,
      [&](filesystem& files) { return files.read(fd, bytes, count, offset); },
      of_bytes(fd, "open for reading", count, offset));
}

std::int64_t gpufs_write(gpufs_filesystem* fs, int fd, void const* bytes, std::uint64_t count,
                         std::int64_t offset) {
  return with_files(
      "gpufs_write", fs, bytes != nullptr || count == 0,
      [&](filesystem& files) { return files.write(fd, bytes, count, offset); },
      of_write(fd, count, offset));
}

int gpufs_sync(gpufs_filesystem* fs, int fd) {
  return int(with_files(
      "gpufs_sync", fs, true,
      [&](filesystem& files) { return fd < 0 ? files.sync() : files.sync(fd); },
      of_descriptor(fd)));
}

int gpufs_advise(gpufs_filesystem* fs, int fd, std::int64_t offset, std::int64_t length,
                 int advice) {
  return int(with_files(
      "gpufs_advise", fs, true,
      [&](filesystem& files) {
        return files.advise(fd, offset, length, static_cast<gpufs::advice>(advice));
      },
      of_advice(fd, offset, length, advice)));
}

std::size_t gpufs_ref_size(void) { return sizeof(fs_ref); }

int gpufs_ref(gpufs_filesystem* fs, void* bytes, std::size_t size) {
  if (size != sizeof(fs_ref))
    return failed(-EINVAL, "gpufs_ref: size={}: must be {}, as gpufs_ref_size() says", size,
                  sizeof(fs_ref));
  return int(with_files("gpufs_ref", fs, bytes != nullptr, [&](filesystem& files) {
    fs_ref const ref = files.ref();
    std::memcpy(bytes, &ref, sizeof(ref));
    return 0;
  }));
}

void const* gpufs_ref_address(gpufs_filesystem* fs) {
  void const* address = nullptr;
  static_cast<void>(with_files("gpufs_ref_address", fs, true, [&](filesystem& files) {
    address = files.ref().self;
    return 0;
  }));
  return address;
}

std::int64_t gpufs_stats(gpufs_filesystem* fs, char* text, std::size_t size) {
  return with_files("gpufs_stats", fs, text != nullptr || size == 0, [&](filesystem& files) {
    std::string const all = fmt::format("{{{}}}", to_json_fields(files.stats()));
    if (size != 0) {
      std::size_t const fits = std::min(all.size(), size - 1);
      std::memcpy(text, all.data(), fits);
      text[fits] = '\0';
    }
    return std::int64_t(all.size());
  });
}

char const* gpufs_last_error(void) { return last_error.c_str(); }

char const* gpufs_device_kind(void) {
#if defined(GPUFS_EMULATED)
  return "emulated";
#else
  return "cuda";
#endif
}

}  // extern "C"

}  // namespace gpufs::owner
