// A block file that kernels read by themselves, behind a controller that makes faults.
#pragma once

#include <gpufs/filesystem.hpp>
#include <gpufs/owner/nvme_members.hpp>

#include <test/nvme/block_members.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace gpufs::test {

/// Faults of the next reads, and completions in any order.
struct read_faults : nvme_controller::fault_plan {
  std::mutex mutex;
  nvme_controller::fault what{};   // the mutex guards this
  unsigned left = 0;               // and this
  std::uint64_t commands = 0;      // and this
  std::mt19937_64 random{seed()};  // and this
  std::atomic<bool> shuffles{false};
  std::atomic<bool> fail{false};
  std::atomic<bool> leave{false};
  std::atomic<bool> stay_ready{false};
  std::atomic<bool> hangs{false};               ///< commands, as in a system call; see release()
  std::atomic<bool> holds{false};               ///< completions are not posted
  std::atomic<std::uint64_t> lost_from{~0ull};  ///< completions of reads from this block on

  void plan(nvme_controller::fault each, unsigned times = 1) {
    std::lock_guard const lock{mutex};
    what = each;
    left = times;
  }
  void release() {
    hangs = false;
    hangs.notify_all();
  }
  unsigned planned() {
    std::lock_guard const lock{mutex};
    return left;
  }
  std::uint64_t seen_commands() {
    std::lock_guard const lock{mutex};
    return commands;
  }
  nvme_controller::fault on_command(std::uint16_t, nvme::sqe const& entry) override {
    hangs.wait(true);
    std::lock_guard const lock{mutex};
    ++commands;
    if (nvme::two_words(entry.dw[10], entry.dw[11]) >= lost_from)
      return {nvme_controller::fault::kind::lose, 0};
    if (left == 0 || nvme::opcode_of(entry) != std::uint32_t(nvme::opcode::read)) return {};
    --left;
    return what;
  }
  bool fails() override { return fail; }
  bool gone() override { return leave; }
  bool keeps_ready() override { return stay_ready; }
  std::size_t posts_now(std::uint16_t, std::size_t ready) override {
    if (holds) return 0;
    if (!shuffles) return ready;
    std::lock_guard const lock{mutex};
    return random() % (ready + 1);
  }
  std::size_t next_posted(std::uint16_t, std::size_t ready) override {
    if (!shuffles) return 0;
    std::lock_guard const lock{mutex};
    return random() % ready;
  }
};

/// One member, open for reading.
struct fault_scene {
  static constexpr std::uint64_t page = 4096, size = 64 * page;

  scratch_folder folder;
  std::string path = make_file(folder, "disk", size, 5);
  std::shared_ptr<read_faults> faults = std::make_shared<read_faults>();
  filesystem fs;
  bool relays;                      ///< doorbells of kernels
  std::uint64_t host_commands = 0;  ///< before the first read
  int fd = -1;

  explicit fault_scene(config const& c = small_config(page, 8), bool relay = false)
      : fs(c), relays(relay) {
    owner::inject_controller_faults({faults});
    attach();
  }
  void attach() {
    nvme::software_options o;
    o.members = {path};
    o.threads = 1;
    o.relay_doorbells = relays;
    fs.attach("disk", o);
    fd = fs.open("nvme:disk", O_RDONLY);
    REQUIRE(fd > 0);
    host_commands = fs.attachment_stats("disk").commands;
  }
  ~fault_scene() { CHECK(fs.close(fd) == 0); }

  std::int64_t read(std::uint64_t number, bool* right = nullptr) {
    op_batch batch;
    auto const op = batch.read(0, fd, std::int64_t(number * page), page);
    batch.run(fs.ref(), 1, 64);
    if (right != nullptr) *right = batch.bytes(op) == pread_bytes(path, number * page, page);
    return batch.result(op);
  }
  void read_is_right(std::uint64_t number) {
    bool right = false;
    CHECK(read(number, &right) == std::int64_t(page));
    CHECK(right);
  }
};

}  // namespace gpufs::test
