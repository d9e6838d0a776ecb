// Files that a program has attached to a filesystem under names of their own, before the files of
// another storage.
#pragma once

#include <host-daemon/backend/storage_backend.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace gpufs::daemon {

/// All paths that begin with the prefix are names of attached files, or of none. Their sizes are
/// fixed, and they are not made or removed by opens.
class attached_files final : public storage_backend {
 public:
  attached_files(std::string prefix, std::shared_ptr<storage_backend> below)
      : prefix_{std::move(prefix)}, below_{std::move(below)} {}

  /// For attached files: -EINVAL for O_CREAT, O_TRUNC and O_APPEND, -ENOENT if no file has the
  /// name, -EBUSY while it is being detached, -EROFS for writing if its status allows nobody to.
  [[nodiscard]] opened_file open(std::string const& path, int flags, unsigned mode) override;
  [[nodiscard]] int status(std::string const& path, struct ::stat& out) noexcept override;
  /// -EINVAL for attached files.
  [[nodiscard]] int unlink(std::string const& path) noexcept override;

  /// Serves `file` by the name. Returns 0, or -EEXIST if another file has it.
  [[nodiscard]] int attach(std::string const& name, std::shared_ptr<stored_file const> file);

  /// Takes a file back. `in_use` says whether descriptors of it are open.
  /// Daemon threads give closed files back a little later, so it waits for them up to `longest`.
  /// Returns 0, -ENOENT, or -EBUSY: then the file stays attached. After 0 the file is destroyed,
  /// unless somebody has a pointer of find().
  [[nodiscard]] int detach(std::string const& name, std::function<bool()> const& in_use,
                           std::chrono::milliseconds longest);

  /// Null: no file has the name.
  [[nodiscard]] std::shared_ptr<stored_file const> find(std::string const& name) const;

 private:
  struct entry {
    std::shared_ptr<stored_file const> file;
    std::uint64_t uses = 0;  // pointers of opens
    bool leaves = false;     // it is being detached
  };
  // Counts the pointers of one open together. The file lives as long as they do.
  class use {
   public:
    use(attached_files& in, std::string name, std::shared_ptr<stored_file const> file)
        : in_{in}, name_{std::move(name)}, file_{std::move(file)} {}
    // The file first: when the last use has ended, detach() has the last pointer to the file.
    ~use() {
      file_.reset();
      in_.end_use(name_);
    }
    use(use const&) = delete;
    use& operator=(use const&) = delete;

   private:
    attached_files& in_;
    std::string const name_;
    std::shared_ptr<stored_file const> file_;
  };
  void end_use(std::string const& name) noexcept;
  [[nodiscard]] bool is_ours(std::string const& path) const noexcept {
    return path.starts_with(prefix_);
  }

  std::string const prefix_;
  std::shared_ptr<storage_backend> const below_;
  mutable std::mutex mutex_;  // guards entries_
  std::condition_variable ended_;
  std::map<std::string, entry, std::less<>> entries_;  // by name, without the prefix
};

}  // namespace gpufs::daemon
