// Lines of the trace, and sums of times.
#include <host-daemon/base/request_recorder.hpp>

#include <fmt/format.h>

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
  appender& number(std::string_view key, std::uint64_t n) noexcept {
    text(key);
    fmt::format_int const digits{n};
    return text({digits.data(), digits.size()});
  }
  [[nodiscard]] char* end() const noexcept { return at_; }

 private:
  char* at_;
};

std::uint64_t thread_number() noexcept {
  thread_local auto const number = std::uint64_t(::gettid());
  return number;
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
  if (file.size() + std::strlen(r.path) + longest_numbers > room) file = "\"\"";
  using std::chrono::nanoseconds;
  auto const begin = nanoseconds{r.begin.time_since_epoch()}.count();
  auto const took = nanoseconds{r.end - r.begin}.count();
  std::lock_guard const lock{mutex_};
  if (used_ + file.size() + std::strlen(r.path) + longest_numbers > room) write();
  if (used_ == 0) first_ = r.end;
  appender out{text_.get() + used_};
  out.text("{\"op\": \"").text(name_of(r.kind));
  out.number("\", \"time_ns\": ", std::uint64_t(begin))
      .number(", \"duration_ns\": ", std::uint64_t(took < 0 ? 0 : took))
      .number(", \"thread\": ", thread_number());
  out.text(", \"file\": ").text(file);
  out.number(", \"offset\": ", r.offset)
      .number(", \"length\": ", r.length)
      .number(", \"bytes\": ", std::uint64_t(r.result < 0 ? 0 : r.result))
      .number(", \"errno\": ", std::uint64_t(r.result < 0 ? -r.result : 0));
  out.text(", \"path\": \"").text(r.path).text("\"}\n");
  used_ = std::size_t(out.end() - text_.get());
  ++lines_;
  if (r.end - first_ > std::chrono::seconds{1}) write();
}

void trace_lines::write() noexcept {
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

request_recorder::request_recorder(std::shared_ptr<trace_file> trace) {
  if (trace) lines_ = std::make_unique<trace_lines>(std::move(trace));
}

void request_recorder::add_to(host_times& times) const noexcept {
  for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
    auto const& c = counts_[kind];
    for (std::size_t b = 0; b < time_histogram::buckets; ++b)
      times[kind].count[b] += c.count[b].load(std::memory_order_relaxed);
    times[kind].total_ns += c.total_ns.load(std::memory_order_relaxed);
  }
}

}  // namespace gpufs::daemon
