// Names of NVMe controllers and block files on the command line.
#pragma once

#include <gpufs/filesystem.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// Controllers that a user named: mem:SIZE, soft:PATH,..., direct:PATH,..., vfio:ADDRESS,..., or
/// relay:ADDRESS,..., with or without `nvme:` before it.
/// mem     Memory behind a software controller.
/// soft    Files or block devices behind software controllers; they are only read.
/// direct  The same, read past the OS page cache.
/// vfio    Drives at PCI addresses that vfio-pci holds.
/// relay   The same, and a thread of the host passes on the doorbells of kernels. A GPU needs it.
struct nvme_spec {
  enum class kinds { memory, software, vfio };
  kinds kind = kinds::memory;
  std::uint64_t bytes = 0;           ///< of memory
  std::vector<std::string> members;  ///< paths or addresses
  bool direct = false;               ///< paths are read past the OS page cache
  bool relay = false;                ///< doorbells of drives are relayed
};

/// What --help and errors say of them.
inline constexpr char nvme_spec_forms[] =
    "mem:SIZE, soft:PATH, direct:PATH, vfio:ADDRESS or relay:ADDRESS";

/// Whether a name is one of a block file: it begins with `nvme:`.
[[nodiscard]] bool is_nvme_spec(std::string_view text);

/// Throws usage_error that says what is allowed.
[[nodiscard]] nvme_spec parse_nvme_spec(std::string_view text);

/// Bytes of a stripe of a block file of several members, the same with all page sizes: 4M, or less
/// if a file among them is smaller: the largest power of two that it holds, at least 128K.
[[nodiscard]] std::uint64_t stripe_of(nvme_spec const& spec);

/// Attaches what `spec` names, striped, for reading; memory for writing, too. Throws as
/// filesystem::attach().
void attach(filesystem& fs, std::string const& name, nvme_spec const& spec);

}  // namespace gpufs::apps
