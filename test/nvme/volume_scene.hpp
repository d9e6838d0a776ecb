// A volume of drives behind software controllers that make faults, without a filesystem.
#pragma once

#include <gpufs/base/mix64.hpp>

#include <test/nvme/forwarding_memory.hpp>

#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>
#include <nvme-host/volume.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/uio.h>

namespace gpufs::test {

struct volume_faults : nvme_controller::fault_plan {
  using fault = nvme_controller::fault;
  std::atomic<std::uint64_t> bad_lba{~0ull};  // commands that touch it fail
  std::atomic<bool> hold{false};              // no completion is posted
  std::atomic<bool> fail{false};
  std::atomic<unsigned> lose_one_in{0};
  std::atomic<unsigned> seen{0};

  fault on_command(std::uint16_t, nvme::sqe const& entry) override {
    std::uint64_t const first = nvme::lba_of(entry), bad = bad_lba;
    bool const moves = nvme::opcode_of(entry) != std::uint32_t(nvme::opcode::flush);
    if (moves && bad >= first && bad < first + nvme::blocks_of(entry))
      return {fault::kind::status, nvme::status::unrecovered_read};
    unsigned const every = lose_one_in, number = ++seen;
    if (every != 0 && number % every == 0) return {fault::kind::lose, 0};
    return {};
  }
  std::size_t posts_now(std::uint16_t, std::size_t ready) override { return hold ? 0 : ready; }
  bool fails() override { return fail; }
};

/// Memory whose reads, writes and flushes do not return while `hangs`.
struct hanging_disk final : forwarding_memory {
  std::atomic<bool> hangs{false};
  std::atomic<std::uint64_t> hangs_from{0};  ///< earlier bytes are read and written all the same
  std::atomic<unsigned> hanging{0};

  using forwarding_memory::forwarding_memory;
  void release() {
    hangs = false;
    hangs.notify_all();
  }
  void pass(std::uint64_t offset) {
    if (offset < hangs_from) return;
    ++hanging;
    hangs.wait(true);
    --hanging;
  }
  std::uint16_t read(std::uint64_t offset, segments to) override {
    pass(offset);
    return memory->read(offset, to);
  }
  std::uint16_t write(std::uint64_t offset, segments from) override {
    pass(offset);
    return memory->write(offset, from);
  }
  std::uint16_t flush() override {
    pass(hangs_from);
    return memory->flush();
  }
  [[nodiscard]] bool flush_waits() const override { return true; }
};

struct volume_shape {
  unsigned members = 1;
  unsigned threads = 1;           // of a controller
  std::uint64_t bytes = 1 << 20;  // of a member
  std::uint32_t lba = 512;
  nvme_host::drive_options drive{.queue_pairs = 1, .depth = 16};
  nvme_host::volume_options volume{.timeout = std::chrono::milliseconds{120'000}};
  std::shared_ptr<nvme_controller::drive_model> model{};
};

struct volume_scene {
  std::vector<std::shared_ptr<nvme_controller::memory_namespace>> disks;
  std::vector<std::shared_ptr<hanging_disk>> calls;
  std::vector<std::shared_ptr<volume_faults>> faults;
  std::unique_ptr<nvme_host::volume> v;

  explicit volume_scene(volume_shape const& s) {
    using namespace nvme_host;
    std::vector<std::unique_ptr<drive>> drives;
    for (unsigned i = 0; i < s.members; ++i) {
      disks.push_back(std::make_shared<nvme_controller::memory_namespace>(s.bytes, s.lba));
      calls.push_back(std::make_shared<hanging_disk>(disks.back()));
      faults.push_back(std::make_shared<volume_faults>());
      nvme_controller::controller_options const o{.namespaces = {calls.back()},
                                                  .threads = s.threads,
                                                  .model = s.model,
                                                  .faults = faults.back()};
      drives.push_back(std::make_unique<drive>(
          std::make_unique<software_link>(o, anonymous_memory(), std::uint64_t{1} << 44),
          std::to_string(i), s.drive));
    }
    v = std::make_unique<volume>(std::move(drives), s.volume);
  }

  std::int64_t write(std::vector<std::byte> const& what, std::uint64_t offset) const {
    ::iovec const part{const_cast<std::byte*>(what.data()), what.size()};
    return v->write({&part, 1}, offset);
  }
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t count) const {
    std::vector<std::byte> seen(count);
    std::int64_t const got = v->read(seen, offset);
    seen.resize(got < 0 ? 0 : std::size_t(got));
    return seen;
  }
};

inline std::vector<std::byte> random_bytes(std::uint64_t from, std::uint64_t count) {
  std::vector<std::byte> all(count);
  for (std::uint64_t i = 0; i < count; ++i)
    all[i] = std::byte(base::mix64(from + i / 8) >> i % 8 * 8);
  return all;
}

}  // namespace gpufs::test
