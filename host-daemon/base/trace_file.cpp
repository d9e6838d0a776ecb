// Opening, writing and ending traces.
#include <gpufs/base/above_stderr.hpp>
#include <gpufs/version.hpp>

#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/json_string.hpp>
#include <host-daemon/base/log.hpp>
#include <host-daemon/base/no_size_signal.hpp>
#include <host-daemon/base/trace_file.hpp>
#include <host-daemon/base/trace_lines.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <new>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

// The traces of this process, by file. Its end ends those that still live.
class open_traces {
 public:
  static open_traces& get() {
    static open_traces all;
    return all;
  }
  ~open_traces() {
    if (process_ != ::getpid()) return;
    for (auto const& [which, weak] : files_)
      if (auto const file = weak.lock()) file->end();
  }
  open_traces(open_traces const&) = delete;
  open_traces& operator=(open_traces const&) = delete;

  // Calls begin(file id is new here) under the lock and keeps what it returns, unless it is null.
  template <class Begin>
  std::shared_ptr<trace_file> find_or(std::string const& name, struct ::stat const& status,
                                      Begin begin) {
    if (process_ != ::getpid()) {  // a child of fork(): the traces are the parent's
      new (&mutex_) std::mutex;    // a thread of the parent may have locked it
      files_.clear();
      process_ = ::getpid();
    }
    std::lock_guard const lock{mutex_};
    std::tuple const which{name, status.st_dev, status.st_ino};  // numbers are used again
    auto const known = files_.find(which);
    if (known != files_.end())
      if (auto shared = known->second.lock()) return shared;
    auto made = begin(known == files_.end());
    if (made) files_[which] = made;
    return made;
  }

 private:
  open_traces() = default;
  std::mutex mutex_;
  std::map<std::tuple<std::string, dev_t, ino_t>, std::weak_ptr<trace_file>> files_;
  pid_t process_ = ::getpid();
};

std::uint64_t now_ns() {
  std::chrono::nanoseconds const now{std::chrono::steady_clock::now().time_since_epoch()};
  return std::uint64_t(now.count());
}

std::string with_process(std::string name) {
  for (std::size_t at = 0; (at = name.find("%p", at)) != std::string::npos;)
    name.replace(at, 2, std::to_string(::getpid()));
  return name;
}

// Returns how many bytes were written, and the error that ended it or 0.
std::pair<std::size_t, int> write_all(int fd, std::string_view text) noexcept {
  no_size_signal const guard;
  std::size_t done = 0;
  while (done < text.size()) {
    auto const n = while_interrupted([&] {
      auto const result = ::write(fd, text.data() + done, text.size() - done);
      return result < 0 ? -errno : result;
    });
    if (n <= 0) return {done, n == 0 ? EIO : int(-n)};
    done += std::size_t(n);
  }
  return {done, 0};
}

constexpr std::string_view first_bytes = "{\"op\": \"begin\", \"time_ns\": ";

// Whether a regular file begins as a trace does, or is empty. Sets `error` if it cannot be read.
bool is_trace(std::string const& name, struct ::stat const& status, int& error) {
  if (status.st_size == 0) return true;
  int const fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  char begin[first_bytes.size()] = {};
  auto const got = fd < 0 ? -1 : ::pread(fd, begin, sizeof begin, 0);
  error = got < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return got > 0 && std::string_view{begin, std::size_t(got)} == first_bytes;
}

}  // namespace

int trace_file::open_descriptor(std::string const& name, std::string& why) {
  int const fd = while_interrupted([&] {
    // O_NONBLOCK: a FIFO without a reader is refused, and not waited for.
    int const result = base::above_stderr(::open(
        name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
    return result < 0 ? -errno : result;
  });
  if (fd < 0) {
    why = std::strerror(-fd);
    return -1;
  }
  struct ::stat status {};
  if (::fstat(fd, &status) != 0) {
    why = std::strerror(errno);
  } else if (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode)) {
    return fd;
  } else {
    why = "must be a regular file or a character device";
  }
  ::close(fd);
  return -1;
}

std::shared_ptr<trace_file> trace_file::open(std::string const& name, std::string& why) {
  auto full = with_process(name);
  int const fd = open_descriptor(full, why);
  if (fd < 0) return nullptr;
  std::unique_ptr<trace_file> fresh;
  try {
    fresh.reset(new trace_file{std::move(full), fd});
  } catch (...) {
    ::close(fd);
    throw;
  }
  struct ::stat status {};
  if (::fstat(fd, &status) != 0) {
    why = std::strerror(errno);
    return nullptr;
  }
  using made = std::shared_ptr<trace_file>;
  return open_traces::get().find_or(fresh->name(), status, [&](bool first_here) -> made {
    bool const is_file = first_here && S_ISREG(status.st_mode);
    if (int error = 0; is_file && !is_trace(fresh->name(), status, error)) {
      why = "has bytes that are no trace, and is not overwritten: name another file";
      if (error != 0) why = fmt::format("has bytes, and cannot be read: {}", std::strerror(error));
      return nullptr;
    }
    // A lock that another process has says that the file is in use: then its lines stay.
    if (is_file && (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK))
      static_cast<void>(::ftruncate(fd, 0));
    static_cast<void>(::flock(fd, LOCK_SH | LOCK_NB));
    made kept{std::move(fresh)};
    kept->process_ = ::getpid();
    kept->write_first_line();
    return kept;
  });
}

trace_file::~trace_file() {
  if (process_ == ::getpid()) write_last_line();
  ::close(fd_);
}

void trace_file::write_first_line() {
  char program[256] = "";
  auto const length = ::readlink("/proc/self/exe", program, sizeof program);
  write(fmt::format("{}{}, \"date\": \"{:%Y-%m-%dT%H:%M:%SZ}\", "
                    "\"process\": {}, \"program\": {}, \"version\": \"{}\"}}\n",
                    first_bytes, now_ns(), fmt::gmtime(std::time(nullptr)), process_,
                    json_string({program, std::size_t(std::max<ssize_t>(length, 0))}),
                    GPUFS_VERSION_STRING),
        1);
}

void trace_file::write_last_line() noexcept {
  std::uint64_t lines = 0, dropped = 0;
  {
    std::lock_guard const lock{mutex_};
    if (std::exchange(ended_, true)) return;
    if (!write_tail()) cut_tail();
    lines = lines_, dropped = dropped_;
  }
  try {
    write(fmt::format("{{\"op\": \"end\", \"time_ns\": {}, \"process\": {}, \"lines\": {}, "
                      "\"dropped\": {}}}\n",
                      now_ns(), process_, lines, dropped),
          1);
    std::lock_guard const lock{mutex_};
    cut_tail();
    if (dropped_ != 0)
      log_line(log_level::warn, fmt::format("trace {}: {} lines were dropped in all: {}", name_,
                                            dropped_, std::strerror(error_)));
  } catch (std::exception const&) {  // no memory for the line
  }
}

void trace_file::write(std::string_view lines, std::uint64_t number) noexcept {
  auto const count = [](std::string_view text) {
    return std::uint64_t(std::count(text.begin(), text.end(), '\n'));
  };
  std::lock_guard const lock{mutex_};
  if (!write_tail()) return drop(number, tail_error_);
  auto const [done, error] = write_all(fd_, lines);
  if (done == lines.size()) {
    lines_ += number;
    return;
  }
  lines_ += count(lines.substr(0, done));
  auto left = lines.substr(done);
  cut_ = done - (lines.substr(0, done).rfind('\n') + 1);
  if (cut_ != 0) {  // the disk became full within a line
    auto const end = left.find('\n') + 1;
    try {
      tail_ = left.substr(0, end);
      tail_error_ = error;
    } catch (std::bad_alloc const&) {  // the line stays cut
      drop(1, error);
    }
    left.remove_prefix(end);
  }
  drop(count(left), error);
}

// Writes the rest of a line. Returns false if a part of it is left. Called with the lock.
bool trace_file::write_tail() noexcept {
  if (tail_.empty()) return true;
  auto const [done, error] = write_all(fd_, tail_);
  cut_ += done;
  tail_.erase(0, done);
  tail_error_ = error;
  lines_ += tail_.empty() ? 1 : 0;
  return tail_.empty();
}

// Called with the lock.
void trace_file::drop(std::uint64_t lines, int error) noexcept {
  if (lines == 0) return;
  if (dropped_ == 0) {
    error_ = error;
    try {
      log_line(log_level::warn,
               fmt::format("trace {}: lines are being dropped: {}", name_, std::strerror(error)));
    } catch (std::exception const&) {  // the last line says it
    }
  }
  dropped_ += lines;
}

// Takes the part of a line away that is written, if nothing stands behind it. Called with the lock.
void trace_file::cut_tail() noexcept {
  if (tail_.empty()) return;
  struct ::stat status {};
  auto const end = ::lseek(fd_, 0, SEEK_CUR);
  if (::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == end)
    static_cast<void>(::ftruncate(fd_, end - off_t(cut_)));
  tail_.clear();
  drop(1, tail_error_);
}

std::uint64_t trace_file::dropped() const {
  std::lock_guard const lock{mutex_};
  return dropped_;
}

void trace_file::add_buffer(trace_lines& buffer) {
  std::lock_guard const lock{buffers_mutex_};
  buffers_.push_back(&buffer);
}

void trace_file::remove_buffer(trace_lines& buffer) noexcept {
  std::lock_guard const lock{buffers_mutex_};
  std::erase(buffers_, &buffer);
}

void trace_file::end() noexcept {
  {
    std::lock_guard const lock{buffers_mutex_};
    for (auto* const b : buffers_) b->flush();
  }
  write_last_line();
}

}  // namespace gpufs::daemon
