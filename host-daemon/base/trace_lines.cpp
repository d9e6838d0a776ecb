#include <host-daemon/base/trace_lines.hpp>

#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include <unistd.h>

namespace gpufs::daemon {

namespace {

// Appends to memory that has room.
class appender {
 public:
  explicit appender(char* at) noexcept : at_{at} {}
  appender& text(std::string_view s) noexcept {
    std::memcpy(at_, s.data(), s.size());
    at_ += s.size();
    return *this;
  }
  appender& character(char c) noexcept {
    *at_++ = c;
    return *this;
  }
  template <class Number>
  appender& number(Number n) noexcept {
    at_ = std::to_chars(at_, at_ + 20, n).ptr;
    return *this;
  }
  template <class Number>
  appender& number(std::string_view key, Number n) noexcept {
    return text(key).number(n);
  }
  [[nodiscard]] char* end() const noexcept { return at_; }

 private:
  char* at_;
};

std::uint64_t thread_number() noexcept {
  constinit thread_local std::uint64_t number = 0;
  if (number == 0) number = std::uint64_t(::gettid());
  return number;
}

std::int64_t ns(std::chrono::steady_clock::duration time) noexcept {
  return std::chrono::nanoseconds{time}.count();
}

}  // namespace

trace_lines::trace_lines(std::shared_ptr<trace_file> file)
    : file_{std::move(file)}, text_{new char[room]} {
  file_->add_buffer(*this);
}

trace_lines::~trace_lines() {
  file_->remove_buffer(*this);
  flush();
}

void trace_lines::add(ended_request const& r, std::string_view file) noexcept {
  // The system's paths are shorter than this even if each byte became an escape.
  std::size_t names = file.size() + std::strlen(r.path);
  if (names + longest_numbers + longest_request > room) {
    names -= file.size();
    file = "\"\"";
  }
  std::lock_guard const lock{mutex_};
  if (used_ + names + longest_numbers + longest_request > room) write();
  if (used_ == 0) first_ = r.end;
  if (!continues_line(r, file)) {
    end_line();
    begin_line(r, file);
  }
  auto const took = ns(r.end - r.begin);
  appender out{text_.get() + used_};
  if (line_.requests++ != 0) out.character(',');
  out.character('[').number(ns(r.begin - line_.first.begin));
  out.character(',').number(std::uint64_t(took < 0 ? 0 : took));
  out.character(',').number(r.offset).character(']');
  used_ = std::size_t(out.end() - text_.get());
  if (line_.requests == most_in_line) end_line();
  if (r.end - first_ > std::chrono::seconds{1}) write();
}

// Called with the lock, as all that follow.
bool trace_lines::continues_line(ended_request const& r, std::string_view file) const noexcept {
  auto const& first = line_.first;
  return line_.requests != 0 && r.kind == first.kind && r.length == first.length &&
         r.result == first.result && line_.thread == thread_number() &&
         (r.path == first.path || std::strcmp(r.path, first.path) == 0) &&
         file == std::string_view{text_.get() + line_.name_at, line_.name_size};
}

void trace_lines::begin_line(ended_request const& r, std::string_view file) noexcept {
  line_ = {.first = r, .thread = thread_number()};
  appender out{text_.get() + used_};
  out.text("{\"op\": \"").text(name_of(r.kind)).text("\", \"file\": ");
  line_.name_at = std::size_t(out.end() - text_.get());
  line_.name_size = file.size();
  out.text(file).text(", \"path\": \"").text(r.path);
  out.number("\", \"thread\": ", line_.thread)
      .number(", \"length\": ", r.length)
      .number(", \"bytes\": ", r.result < 0 ? 0 : r.result)
      .number(", \"errno\": ", r.result < 0 ? -r.result : 0)
      .number(", \"time_ns\": ", ns(r.begin.time_since_epoch()))
      .text(", \"requests\": [");
  used_ = std::size_t(out.end() - text_.get());
}

void trace_lines::end_line() noexcept {
  if (line_.requests == 0) return;
  used_ = std::size_t(appender{text_.get() + used_}.text("]}\n").end() - text_.get());
  ++lines_;
  line_.requests = 0;
}

void trace_lines::write() noexcept {
  end_line();
  if (used_ != 0) file_->write({text_.get(), used_}, lines_);
  used_ = 0;
  lines_ = 0;
}

void trace_lines::flush() noexcept {
  std::lock_guard const lock{mutex_};
  write();
}

void trace_lines::flush_old(ended_request::time_point now) noexcept {
  std::lock_guard const lock{mutex_};
  if (used_ != 0 && now - first_ > std::chrono::seconds{1}) write();
}

}  // namespace gpufs::daemon
