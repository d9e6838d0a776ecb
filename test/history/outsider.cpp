#include <test/history/outsider.hpp>
#include <test/support/child.hpp>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::history {

namespace {

struct request {
  outside_call what;
  std::uint32_t path_length;
  std::int64_t offset;
  std::uint64_t count;
};

bool send_all(int socket, void const* from, std::size_t count) {
  auto const* at = static_cast<char const*>(from);
  while (count > 0) {
    auto const n = ::send(socket, at, count, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    count -= std::size_t(n);
  }
  return true;
}

bool receive_all(int socket, void* to, std::size_t count) {
  return count == 0 || ::recv(socket, to, count, MSG_WAITALL) == ssize_t(count);
}

}  // namespace

std::int64_t call_outside(outside_call what, std::string const& path, std::int64_t offset,
                          std::vector<std::byte>& bytes) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -errno;
  std::int64_t result = 0;
  struct ::stat status {};
  switch (what) {
    case outside_call::read:
      result = ::pread(fd, bytes.data(), bytes.size(), off_t(offset));
      if (result >= 0) bytes.resize(std::size_t(result));
      break;
    case outside_call::write:
      result = ::pwrite(fd, bytes.data(), bytes.size(), off_t(offset));
      break;
    case outside_call::truncate: result = ::ftruncate(fd, off_t(offset)); break;
    case outside_call::size:
      result = ::fstat(fd, &status);
      if (result == 0) result = status.st_size;
      break;
  }
  if (result < 0) result = -errno;
  ::close(fd);
  return result;
}

struct outsider_process::implementation {
  int ours = -1;
  std::unique_ptr<test::child> process;
};

outsider_process::outsider_process() : implementation_(std::make_unique<implementation>()) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  // The child inherits its end; its path is the number of that.
  if (::fcntl(ends[1], F_SETFD, 0) != 0)
    throw std::system_error(errno, std::generic_category(), "fcntl");
  implementation_->ours = ends[0];
  implementation_->process = std::make_unique<test::child>("outsider", std::to_string(ends[1]));
  ::close(ends[1]);
}

outsider_process::~outsider_process() {
  ::close(implementation_->ours);
  implementation_->process->wait();
}

std::int64_t outsider_process::call(outside_call what, std::string const& path, std::int64_t offset,
                                    std::vector<std::byte>& bytes) {
  request const r{what, std::uint32_t(path.size()), offset, bytes.size()};
  int const to = implementation_->ours;
  std::int64_t result = 0;
  bool fine = send_all(to, &r, sizeof r) && send_all(to, path.data(), path.size()) &&
              (what != outside_call::write || send_all(to, bytes.data(), bytes.size())) &&
              receive_all(to, &result, sizeof result);
  if (fine && what == outside_call::read) {
    bytes.resize(result > 0 ? std::size_t(result) : 0);
    fine = receive_all(to, bytes.data(), bytes.size());
  }
  if (!fine) throw std::runtime_error{"the outsider's process has gone"};
  return result;
}

void outsider_process::serve(int socket) {
  for (request r; receive_all(socket, &r, sizeof r);) {
    std::string path(r.path_length, '\0');
    std::vector<std::byte> bytes(r.count);
    if (!receive_all(socket, path.data(), path.size())) return;
    if (r.what == outside_call::write && !receive_all(socket, bytes.data(), bytes.size())) return;
    auto const result = call_outside(r.what, path, r.offset, bytes);
    if (!send_all(socket, &result, sizeof result)) return;
    if (r.what == outside_call::read && result > 0 && !send_all(socket, bytes.data(), bytes.size()))
      return;
  }
}

}  // namespace gpufs::history
