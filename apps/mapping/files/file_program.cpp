#include <apps/harness/parallel.hpp>
#include <apps/mapping/files/check_results.hpp>
#include <apps/mapping/files/file_program.hpp>
#include <apps/mapping/files/nothing.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>

namespace gpufs::apps::workloads {

/// A file, mapped for reading.
class file_program::mapped_result {
 public:
  mapped_result(std::string const& path, std::uint64_t bytes) : bytes_(bytes) {
    open_file_of const file(path, O_RDONLY);
    data_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
  }
  ~mapped_result() { ::munmap(data_, bytes_); }
  mapped_result(mapped_result const&) = delete;
  mapped_result& operator=(mapped_result const&) = delete;

  [[nodiscard]] std::span<std::byte const> bytes() const {
    return {static_cast<std::byte const*>(data_), bytes_};
  }

 private:
  void* data_;
  std::uint64_t bytes_;
};

file_program::file_program(setup const& of, std::unique_ptr<file_workload> inner)
    : of_(of), inner_(std::move(inner)), files_(of, inner_->objects()) {}

file_program::~file_program() = default;

std::unique_ptr<file_arrays> file_program::make_arrays(session& s) {
  switch (s.how().how) {
    case variant::naive: return make_naive_arrays(files_);
    case variant::hand: return make_hand_arrays(files_);
    case variant::managed: return make_managed_arrays(files_, of_.memory.device_memory);
    case variant::shared:
      return make_shared_arrays(
          files_, s.memory(), {s.is_declared(), of_.is_eager, !of_.memory.mapping_profile.empty()});
    case variant::cpu: break;
  }
  return nullptr;
}

void file_program::allocate(session& s) {
  if (of_.is_cold) files_.drop_from_page_cache();
  arrays_ = make_arrays(s);
  launch_nothing();  // the device is ready before the clock starts
}

void file_program::run(session& s) {
  {
    auto const in = s.time(phase::io_read);
    arrays_->map();
    if (!inner_->is_in_windows()) arrays_->wait_for_files();
  }
  {
    auto const in = s.time(of_.times_kernels ? phase::launch : phase::kernels);
    kernel_timer timer;
    if (of_.times_kernels) arrays_->time_kernels(timer);
    inner_->compute(*arrays_);
    arrays_->synchronize();
    s.add_launches(arrays_->launches());
    s.clock().add(phase::kernels, timer.seconds());
    s.clock().add(phase::launch, -timer.seconds());
  }
  auto const in = s.time(phase::io_write);
  arrays_->unmap();
}

void file_program::reference() {
  inner_->prepare_reference();
  for (auto const& rule : inner_->rules()) {
    auto const& o = files_.object(rule.object);
    std::uint64_t const size = bytes_of(rule.type);
    open_file_of const file(files_.path(rule.object), O_RDWR | O_CREAT);
    parallel_ranges(o.bytes / size, rule.group, [&](std::uint64_t begin, std::uint64_t end) {
      std::vector<double> values(end - begin);
      std::vector<std::byte> bytes(values.size() * size);
      inner_->reference(rule.object, begin, values);
      from_doubles(rule.type, values, bytes);
      file.write(bytes.data(), bytes.size(), begin * size);
    });
  }
}

void file_program::check(session&, checks& c) {
  inner_->prepare_reference();
  check_results(*inner_, files_, of_.seed, c);
  inner_->check_more(files_, c);
}

std::vector<std::span<std::byte const>> file_program::results() {
  std::vector<std::span<std::byte const>> all;
  mapped_.clear();
  for (unsigned i = 0; i < files_.objects().size(); ++i) {
    if (!is_written_home(files_.object(i).use)) continue;
    mapped_.push_back(std::make_unique<mapped_result>(files_.path(i), files_.object(i).bytes));
    all.push_back(mapped_.back()->bytes());
  }
  return all;
}

void file_program::check_counters(session const&, mapping_statistics const& got, checks& c) {
  inner_->check_counters(got, c);
}

}  // namespace gpufs::apps::workloads
