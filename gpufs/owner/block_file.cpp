#include <gpufs/owner/block_file.hpp>

#include <host-daemon/base/json_string.hpp>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>

#include <sys/stat.h>

namespace gpufs::owner {

namespace {

// No file system of the host has it: numbers of devices have fewer bits.
constexpr std::uint64_t block_device = ~std::uint64_t{0} << 32 | 0x6e766d65;

std::uint64_t next_inode() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

::timespec now() {
  ::timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

template <class Call>
std::int64_t without_exceptions(Call const& call) noexcept {
  try {
    return call();
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  }
}

}  // namespace

block_file::block_file(std::unique_ptr<nvme_host::volume> volume, std::string_view path,
                       traits const& of)
    : volume_{std::move(volume)},
      traced_name_{daemon::json_string(path)},
      traits_{of},
      inode_{next_inode()},
      made_{now()} {}

block_file::~block_file() {
  watch_.reset();
  if (drives_) drives_->end();
}

void block_file::read_by_kernels(std::shared_ptr<device_drives> drives, std::uint8_t number) {
  drives_ = std::move(drives);  // first: the destructor ends them
  std::size_t member = 0;
  for (auto const& drive : volume_->drives()) {
    drive->on_reset([d = drives_, member] { d->begin_reset(member); },
                    [d = drives_, member] { d->end_member(member); },
                    [d = drives_, member] { return d->lacks_answers(member); });
    ++member;
  }
  watch_ = std::make_unique<nvme_host::drive_watch>(volume_->drives());
  backing_ = number;
  drives_->publish();
}

int block_file::status(struct ::stat& out) const noexcept {
  out = {};
  out.st_dev = block_device;
  out.st_ino = inode_;
  out.st_mode = S_IFBLK | (traits_.read_only ? 0440 : 0660);
  out.st_nlink = 1;
  out.st_size = static_cast<::off_t>(volume_->bytes());
  out.st_blksize = static_cast<::blksize_t>(volume_->lba_bytes());
  out.st_blocks = static_cast<::blkcnt_t>(volume_->bytes() / 512);
  out.st_atim = out.st_mtim = out.st_ctim = made_;
  return 0;
}

std::int64_t block_file::read(std::span<std::byte> to, std::uint64_t offset) const noexcept {
  return without_exceptions([&] { return volume_->read(to, offset); });
}

std::int64_t block_file::write(std::span<::iovec const> parts,
                               std::uint64_t offset) const noexcept {
  if (traits_.read_only) return -EROFS;
  return without_exceptions([&] { return volume_->write(parts, offset); });
}

int block_file::sync() const noexcept {
  return static_cast<int>(without_exceptions([&] { return std::int64_t{volume_->flush()}; }));
}

nvme::attachment_statistics block_file::statistics() const {
  nvme::attachment_statistics sum;
  sum.modelled = traits_.modelled;
  sum.other_replicas = volume_->other_replicas();
  for (auto const& each : volume_->drives()) {
    auto const& c = each->counters();
    sum.commands += c.commands;
    sum.flushes += c.flushes;
    sum.bytes_read += c.bytes_read;
    sum.bytes_written += c.bytes_written;
    sum.retries += c.retries;
    sum.own_faults += c.own_faults;
    sum.timeouts += c.timeouts;
    auto const queues = each->counts();
    sum.doorbells += queues.doorbells;
    sum.queue_looks += queues.looks;
    sum.empty_looks += queues.empty_looks;
    sum.strays += queues.strays;
    sum.resets += c.resets;
    sum.longest_wait_ns = std::max<std::uint64_t>(sum.longest_wait_ns, c.longest_wait_ns);
    for (auto const& [status, count] : c.errors()) sum.errors[status] += count;
  }
  sum.why_no_device_queues = why_not_;
  if (drives_ && backing_ != 0) {  // kernels were given them
    if (drives_->in_use())
      sum.device_queue_pairs = drives_->pairs();
    else
      sum.why_no_device_queues = "a controller was reset, or gave kernels no answer in time";
    sum.device_commands = drives_->completed();
    sum.device_errors = drives_->failed();
    sum.doorbells_relayed = drives_->relayed();
  }
  return sum;
}

}  // namespace gpufs::owner
