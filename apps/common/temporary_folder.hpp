// A folder that goes away with what is in it.
#pragma once

#include <string>

namespace gpufs::apps {

class temporary_folder {
 public:
  /// Makes `prefix`-XXXXXX in folder `parent`. Throws std::system_error naming it, and where
  /// `parent` comes from: an option or a variable.
  /// @param is_kept  it stays
  temporary_folder(std::string const& parent, std::string const& from, std::string const& prefix,
                   bool is_kept = false);
  ~temporary_folder();
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;

  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
  bool is_kept_;
};

}  // namespace gpufs::apps
