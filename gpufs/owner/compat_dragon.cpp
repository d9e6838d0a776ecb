// DRAGON's functions, over one address space of the process.
#include <gpufs/compat/dragon.h>
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/owner/process_memory.hpp>

#include <host-daemon/base/say.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace gpufs::owner {

namespace {

/// The mappings of the process, by address.
class dragon_maps {
 public:
  static dragon_maps& all() {
    static auto& maps = *new dragon_maps;  // static objects may unmap when they end
    return maps;
  }

  void* add(char const* path, map_options const& options) {
    mapping made = process_memory::get().memory().map(path, options);
    void* const address = made.data();
    std::lock_guard const lock(mutex_);
    maps_.emplace(address, std::move(made));
    return address;
  }
  mapping* find(void* address) {
    std::lock_guard const lock(mutex_);
    auto const at = maps_.find(address);
    return at == maps_.end() ? nullptr : &at->second;
  }
  mapping take(void* address) {
    std::lock_guard const lock(mutex_);
    auto node = maps_.extract(address);
    return node.empty() ? mapping{} : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::map<void*, mapping> maps_;
};

dragonError_t error_for(int code) {
  switch (code) {
    case 0: return D_OK;
    case EINVAL: return D_ERR_INTVAL;
    case ENOMEM:
    case ENOSPC: return D_ERR_MEM;
    case EIO: return D_ERR_IOCTL;
    case EOPNOTSUPP: return D_ERR_NOT_IMPLEMENTED;
    default: return D_ERR_FILE;
  }
}

dragonError_t refused(dragonError_t error, char const* call, char const* why) {
  daemon::say("{}: {}", call, why);
  return error;
}

// Runs a call. Whatever it throws becomes an error.
template <class Call>
dragonError_t guarded(char const* name, Call const& call) {
  try {
    int const result = call();
    if (result == 0) return D_OK;
    return refused(error_for(-result), name, std::strerror(-result));
  } catch (shared_memory_error const& e) {
    return refused(error_for(e.code()), name, e.what());
  } catch (config_error const& e) {
    return refused(D_ERR_INTVAL, name, e.what());
  } catch (std::bad_alloc const&) {
    return refused(D_ERR_MEM, name, "no memory");
  } catch (std::exception const& e) {
    return refused(D_ERR_IOCTL, name, e.what());
  }
}

template <class Call>
dragonError_t with_map(char const* name, void* address, Call const& call) {
  return guarded(name, [&] {
    auto* const found = dragon_maps::all().find(address);
    return found == nullptr ? -EINVAL : call(*found);
  });
}

constexpr char const* stays_volatile =
    "volatile mappings stay what they are; unmap, and map without D_F_VOLATILE";

access access_of(unsigned flags) {
  bool const reads = (flags & D_F_READ) != 0, writes = (flags & D_F_WRITE) != 0;
  return reads == writes ? access::read_write : reads ? access::read : access::write;
}

map_options options_for(std::uint64_t size, std::uint64_t start, unsigned flags) {
  map_options options;
  options.access = access_of(flags);
  options.length = size;
  options.offset = start;
  options.scratch = (flags & D_F_VOLATILE) != 0;
  options.create = options.truncate = (flags & D_F_CREATE) != 0;
  return options;
}

}  // namespace

extern "C" {

dragonError_t dragon_map_from(char const* filename, size_t size, long long start,
                              unsigned short flags, void** address) {
  constexpr unsigned known =
      D_F_READ | D_F_WRITE | D_F_CREATE | D_F_DONTTRASH | D_F_VOLATILE | D_F_USEHOSTBUF;
  if (filename == nullptr || address == nullptr || size == 0 || start < 0 || (flags & ~known) != 0)
    return refused(D_ERR_INTVAL, "dragon_map",
                   "needs a path, a size, a start of 0 or more, known flags and a place for the "
                   "address");
  return guarded("dragon_map", [&] {
    *address = dragon_maps::all().add(filename, options_for(size, std::uint64_t(start), flags));
    return 0;
  });
}

dragonError_t dragon_map(char const* filename, size_t size, unsigned short flags, void** address) {
  return dragon_map_from(filename, size, 0, flags, address);
}

dragonError_t dragon_sync(void* address) {
  return with_map("dragon_sync", address, [](gpufs::mapping& m) { return m.sync(); });
}

dragonError_t dragon_flush(void* address) {
  return with_map("dragon_flush", address, [](gpufs::mapping& m) { return m.write_back(); });
}

dragonError_t dragon_remap(void* address, unsigned short flags) {
  if ((flags & D_F_VOLATILE) != 0)
    return refused(D_ERR_NOT_IMPLEMENTED, "dragon_remap", stays_volatile);
  return with_map("dragon_remap", address, [&](gpufs::mapping& m) {
    int const error = m.remap(access_of(flags));
    if (error == -EINVAL) throw shared_memory_error(EOPNOTSUPP, stays_volatile);
    if (error == -EOPNOTSUPP)
      throw shared_memory_error(EOPNOTSUPP,
                                "mappings in managed memory stay what they are; set "
                                "GPUFS_BACKING=auto, or unmap and map anew");
    return error;
  });
}

dragonError_t dragon_unmap(void* address) {
  return guarded("dragon_unmap", [&] {
    auto taken = dragon_maps::all().take(address);
    return taken.data() == nullptr ? -EINVAL : taken.unmap();
  });
}

dragonError_t dragon_trash_set_num_blocks(unsigned long) { return D_OK; }
dragonError_t dragon_trash_set_num_reserved_sys_cache_pages(unsigned long) { return D_OK; }

}  // extern "C"

}  // namespace gpufs::owner
