#include <apps/common/program.hpp>
#include <apps/harness/gread_files.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace gpufs::apps {

gread_files::gread_files(config const& settings)
    : fs_(settings), failure_(1), checksums_(most_files) {
  failure_.fill_zero();
}

chunk_io gread_files::access(std::vector<data_file const*> const& files, std::uint64_t request,
                             bool sums) {
  if (files.size() > most_files)
    throw std::length_error(
        fmt::format("{} files: a kernel reads {} at most", files.size(), most_files));
  names_.clear();
  std::vector<char> text;
  std::vector<std::size_t> at;
  for (auto const* f : files) {
    std::string const& path = f->file.path();
    names_.push_back(path);
    at.push_back(text.size());
    text.insert(text.end(), path.begin(), path.end());
    text.push_back('\0');
  }
  if (paths_.size() < text.size()) paths_ = buffer<char>(text.size());
  paths_.copy_from_host(text.data(), text.size());
  failure_.fill_zero();
  checksums_.fill_zero();
  chunk_io io{fs_.ref(), {}, request, failure_.data(), sums ? checksums_.data() : nullptr};
  for (std::size_t i = 0; i < at.size(); ++i) io.paths[i] = paths_.data() + at[i];
  return io;
}

void gread_files::require_success() const {
  io_failure f;
  failure_.copy_to_host(&f, 1);
  if (f.taken == 0) return;
  std::string const got = f.result < 0 ? error_text(f.result) : fmt::format("{} bytes", f.result);
  std::string const& path = names_.at(f.file);
  throw std::runtime_error(f.bytes == 0 ? fmt::format("gopen of {}: {}", path, got)
                                        : fmt::format("gread of {} bytes at {} of {}: {}", f.bytes,
                                                      f.offset, path, got));
}

std::vector<std::uint64_t> gread_files::checksums() const {
  std::vector<unsigned long long> sums(most_files);
  checksums_.copy_to_host(sums.data(), sums.size());
  return {sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(names_.size())};
}

}  // namespace gpufs::apps
