// Reads and writes of a file by system calls, here or in another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::history {

enum class outside_call : std::uint32_t { read, write, truncate, size };

/// Does one call on the file at `path`, which it opens and closes. read: `bytes` is as long as what
/// is wanted, and gets what there is. Returns bytes, a size or 0, or -errno.
std::int64_t call_outside(outside_call what, std::string const& path, std::int64_t offset,
                          std::vector<std::byte>& bytes);

/// A child of this program that does the same. One thread uses it.
class outsider_process {
 public:
  outsider_process();
  ~outsider_process();
  outsider_process(outsider_process const&) = delete;
  outsider_process& operator=(outsider_process const&) = delete;

  std::int64_t call(outside_call what, std::string const& path, std::int64_t offset,
                    std::vector<std::byte>& bytes);

  /// The child's part, the test case "child: outsider". Returns when the parent has gone.
  static void serve(int socket);

 private:
  struct implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace gpufs::history
