#include <apps/common/file_io.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/host_file.hpp>
#include <apps/mapping/files/work_files.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps::workloads {

namespace {

[[noreturn]] void refuse(int error, std::string const& what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// Makes a file with what the generator has for it.
void make_file(std::string const& path, file_object const& o) {
  open_file_of const file(path, O_RDWR | O_CREAT | O_TRUNC);
  if (int const error = fill_file(file.fd(), o.bytes, o.fill); error != 0) refuse(error, path);
  host_file(path).load_into_page_cache(o.bytes);
}

/// Text that differs if the inputs of two setups do.
std::string origin_of(setup const& s, std::vector<file_object> const& objects) {
  std::string text = fmt::format("{} {}", s.folder, s.seed);
  for (auto const& [name, value] : s.numbers) text += fmt::format(" {}={}", name, value);
  for (auto const& o : objects) text += fmt::format(" {}:{}", o.name, o.bytes);
  return text;
}

constexpr char folder_prefix[] = "gpufs-mapping";

std::string file_in(temporary_folder const& folder, file_object const& o) {
  return folder.path() + "/" + o.name + ".mem";
}

}  // namespace

work_files::work_files(setup const& of, std::vector<file_object> const& objects)
    : objects_(objects),
      inputs_(inputs_of(of, objects)),
      own_(of.folder, "--folder", folder_prefix, of.keeps_files) {
  for (auto const& o : objects_)
    if (o.use == object_use::updated) make_file(file_in(own_, o), o);
}

std::shared_ptr<temporary_folder> work_files::inputs_of(setup const& of,
                                                        std::vector<file_object> const& objects) {
  std::string const origin = origin_of(of, objects);
  // Those that were asked for last.
  static std::string kept_origin;
  static std::shared_ptr<temporary_folder> kept;
  if (kept && kept_origin == origin) return kept;
  kept.reset();
  std::uint64_t bytes = 0;
  for (auto const& o : objects)
    if (begins_with_bytes(o.use)) bytes += o.bytes;
  require_free_space(of.folder, "--folder", bytes);
  auto made =
      std::make_shared<temporary_folder>(of.folder, "--folder", folder_prefix, of.keeps_files);
  for (auto const& o : objects)
    if (o.use == object_use::input) make_file(file_in(*made, o), o);
  kept_origin = origin;
  kept = made;
  return made;
}

std::string work_files::path(unsigned object) const {
  auto const& o = objects_.at(object);
  return file_in(o.use == object_use::input ? *inputs_ : own_, o);
}

void work_files::drop_from_page_cache() const {
  for (unsigned i = 0; i < objects_.size(); ++i)
    if (begins_with_bytes(objects_[i].use)) host_file(path(i)).drop_from_page_cache();
}

void work_files::read(unsigned object, std::uint64_t offset, void* to, std::uint64_t bytes) const {
  open_file_of(path(object), O_RDONLY).read(to, bytes, offset);
}

open_file_of::open_file_of(std::string path, int flags) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0600);
  if (fd_ < 0) refuse(errno, path_);
}

open_file_of::~open_file_of() {
  if (fd_ >= 0) ::close(fd_);
}

open_file_of::open_file_of(open_file_of&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void open_file_of::read(void* to, std::uint64_t bytes, std::uint64_t offset) const {
  auto const got = read_at(fd_, {static_cast<std::byte*>(to), bytes}, offset);
  if (got < 0) refuse(static_cast<int>(-got), path_);
  auto const end = offset + static_cast<std::uint64_t>(got);
  if (end != offset + bytes)
    refuse(EIO, path_ + ": ended at byte " + std::to_string(end) + ", before byte " +
                    std::to_string(offset + bytes));
}

void open_file_of::write(void const* from, std::uint64_t bytes, std::uint64_t offset) const {
  int const error = write_at(fd_, {static_cast<std::byte const*>(from), bytes}, offset);
  if (error != 0) refuse(-error, path_);
}

void open_file_of::make_durable() const {
  if (::fdatasync(fd_) != 0) refuse(errno, path_);
}

}  // namespace gpufs::apps::workloads
