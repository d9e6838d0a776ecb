// What the software controller does beyond the conformance suite: files, faults, memory that goes.
#include <test/nvme/controller_scene.hpp>
#include <test/nvme/pattern.hpp>
#include <test/nvme/plain_queue.hpp>
#include <test/nvme/volume_scene.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/control_plane.hpp>
#include <nvme-host/errors.hpp>
#include <nvme-host/software.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace controller = gpufs::nvme_controller;
namespace host = gpufs::nvme_host;
namespace nvme = gpufs::nvme;
namespace status = gpufs::nvme::status;
using controller::file_namespace;
using gpufs::test::plain_queue;
using gpufs::test::wait_until;
using scene = gpufs::test::controller_scene;

namespace {

std::shared_ptr<controller::memory_namespace> small_disk() {
  auto disk = std::make_shared<controller::memory_namespace>(1 << 20, 512);
  gpufs::test::fill_pattern(disk->bytes(), 0);
  return disk;
}

}  // namespace

TEST_CASE("nvme controller: options out of bounds are refused") {
  host::memory_source const memory = host::anonymous_memory();
  auto const make = [&](controller::controller_options const& options) {
    host::software_link const link{options, memory};
  };
  CHECK_THROWS_AS(make({.namespaces = {}, .threads = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.namespaces = {}, .threads = 65}), std::invalid_argument);
  CHECK_THROWS_AS(make({.namespaces = {}, .entries = 1}), std::invalid_argument);
  CHECK_THROWS_AS(make({.namespaces = {}, .entries = 8193}), std::invalid_argument);
  CHECK_THROWS_AS(make({.namespaces = {}, .faults = nullptr}), std::invalid_argument);
  CHECK_THROWS_AS(controller::memory_namespace(0, 512), std::invalid_argument);
  CHECK_THROWS_AS(controller::memory_namespace(4096, 1024), std::invalid_argument);
  CHECK_THROWS_AS(controller::null_namespace(0, 512), std::invalid_argument);
}

TEST_CASE("nvme controller: blocks of 4096 bytes, a size that is rounded up, a null namespace") {
  auto const disk = std::make_shared<controller::memory_namespace>(5000, 4096);
  scene s{disk};
  auto const seen = s.plane.identify_namespace(1);
  CHECK(seen.blocks == 2);
  CHECK(seen.lba_bytes == 4096);
  plain_queue queue = s.queue();
  std::memset(s.memory.data(), 7, 8192);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::write, 1, 0, 2))) == 0);
  CHECK(disk->bytes()[8191] == std::byte{7});

  scene null{std::make_shared<controller::null_namespace>(std::uint64_t{1} << 40, 512)};
  plain_queue other = null.queue();
  CHECK(null.plane.identify_namespace(1).blocks == std::uint64_t{1} << 40);
  null.memory.data()[0] = std::byte{9};
  CHECK(nvme::status_of(other.call(null.transfer(nvme::opcode::read, 1, 1ull << 39))) == 0);
  CHECK(null.memory.data()[0] == std::byte{9});
}

TEST_CASE("nvme controller: a file whose size is no multiple of the block") {
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "disk";
  std::vector<std::byte> bytes(1500);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  gpufs::test::write_bytes(path, bytes);
  scene s{std::make_shared<file_namespace>(path, 512, file_namespace::mode::read_write)};
  plain_queue queue = s.queue();
  CHECK(s.plane.identify_namespace(1).blocks == 3);
  std::memset(s.memory.data(), 0xff, 1536);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 0, 3))) == 0);
  CHECK(std::memcmp(s.memory.data(), bytes.data(), 1500) == 0);
  for (unsigned i = 1500; i < 1536; ++i) CHECK(s.memory.data()[i] == std::byte{0});
  std::memset(s.memory.data(), 0x41, 512);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::write, 1, 2))) == 0);
  CHECK(nvme::status_of(queue.call(nvme::make_flush(2, 1))) == 0);
  CHECK(std::filesystem::file_size(path) == 1500);
  nvme::sqe const zero = nvme::make_transfer(nvme::opcode::write_zeroes, 3, 1, {0, 1}, {});
  CHECK(nvme::status_of(queue.call(zero)) == 0);
  auto const now = gpufs::test::pread_bytes(path, 0, 4096);
  CHECK(now.size() == 1500);
  CHECK(now[511] == std::byte{0});
  CHECK(now[512] == bytes[512]);
  CHECK(now[1024] == std::byte{0x41});
  CHECK(now[1499] == std::byte{0x41});
}

TEST_CASE("nvme controller: files that cannot be members are refused, writers exclude each other") {
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "disk";
  using mode = file_namespace::mode;
  CHECK_THROWS_AS(file_namespace(path, 512, mode::read_only), std::system_error);
  gpufs::test::write_bytes(path, {});
  CHECK_THROWS_AS(file_namespace(path, 512, mode::read_only), std::invalid_argument);
  CHECK_THROWS_AS(file_namespace("/dev/null", 512, mode::read_only), std::invalid_argument);
  gpufs::test::write_bytes(path, std::vector<std::byte>(4, std::byte{7}));
  CHECK_THROWS_AS(file_namespace(path, 1000, mode::read_only), std::invalid_argument);
  {
    file_namespace const writer{path, 512, mode::read_write};
    CHECK_THROWS_AS(file_namespace(path, 512, mode::read_write), std::system_error);
    file_namespace const reader{path, 512, mode::read_only};
  }
  scene s{std::make_shared<file_namespace>(path, 512, mode::read_only)};
  plain_queue queue = s.queue();
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::write, 1, 0))) ==
        status::write_to_read_only);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 0))) == 0);
}

TEST_CASE("nvme controller: blocks that others have cut off a file cannot be read") {
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "disk";
  gpufs::test::write_bytes(path, std::vector<std::byte>(4096, std::byte{'x'}));
  scene s{std::make_shared<file_namespace>(path, 512, file_namespace::mode::read_write)};
  plain_queue queue = s.queue();
  std::filesystem::resize_file(path, 700);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 0, 8))) ==
        status::unrecovered_read);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 0, 1))) == 0);
  CHECK(s.memory.data()[511] == std::byte{'x'});
}

TEST_CASE("nvme controller: nor can those of a file that is read out of a mapping by then") {
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "disk";
  gpufs::test::write_bytes(path, std::vector<std::byte>(8192, std::byte{'x'}));
  scene s{std::make_shared<file_namespace>(path, 512, file_namespace::mode::read_write)};
  plain_queue queue = s.queue();
  auto const read = [&](std::uint64_t block, std::uint32_t blocks) {
    return nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, block, blocks)));
  };
  for (unsigned i = 0; i < 200; ++i) REQUIRE(read(8, 8) == 0);
  std::filesystem::resize_file(path, 5000);
  CHECK(read(8, 8) == status::unrecovered_read);
  CHECK(read(10, 2) == status::unrecovered_read);
  CHECK(read(8, 1) == 0);
  CHECK(s.memory.data()[511] == std::byte{'x'});
  std::filesystem::resize_file(path, 8192);
  CHECK(read(10, 2) == 0);  // zeros that are there
}

TEST_CASE("nvme controller: a pipe is no member, and nobody waits for its writer") {
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  for (auto const how : {file_namespace::mode::read_only, file_namespace::mode::read_write})
    CHECK_THROWS_WITH_AS(file_namespace(path, 512, how),
                         doctest::Contains("must be a regular file or a block device"),
                         std::invalid_argument);
}

TEST_CASE("nvme controller: one that makes bytes durable as it shuts down is late, not lost") {
  auto const disk = std::make_shared<gpufs::test::hanging_disk>(small_disk());
  host::software_link link{{.namespaces = {disk}}};
  // It bounds the flush alone: without queue pairs there are no admin commands.
  host::control_plane plane{link, {.admin_timeout = std::chrono::milliseconds{200}}};
  plane.bring_up();
  disk->hangs = true;
  CHECK_THROWS_WITH_AS(plane.shut_down(), doctest::Contains("did not shut down in time"),
                       host::controller_error);
  CHECK(!plane.stop());
  CHECK(plane.is_late());
  disk->release();
  wait_until([&] { return !link.is_stopping(); }, "the flush");
  CHECK(plane.stop());
}

TEST_CASE("nvme controller: commands behind a flush that takes long are answered meanwhile") {
  auto const disk = std::make_shared<gpufs::test::hanging_disk>(small_disk());
  disk->hangs_from = 4096;
  scene s{disk};
  struct release_at_end {
    gpufs::test::hanging_disk& disk;
    ~release_at_end() { disk.release(); }
  } const guard{*disk};
  auto queue = s.queue();
  disk->hangs = true;
  queue.push(nvme::make_flush(1, 1));
  queue.push(s.transfer(nvme::opcode::read, 2, 0));
  queue.ring();
  CHECK(nvme::cid_of(queue.wait()) == 2);
  disk->release();
  CHECK(nvme::cid_of(queue.wait()) == 1);
  // A reset waits for it, and nobody gets a late answer.
  disk->hangs = true;
  queue.push(nvme::make_flush(1, 1));
  queue.ring();
  wait_until([&] { return disk->hanging != 0; }, "a flush");
  CHECK(!s.plane.stop());
  CHECK(s.plane.is_late());
  disk->release();
  wait_until([&] { return s.plane.stop(); }, "the end of the flush");
  s.plane.free_retired();
  s.plane.bring_up();
  auto fresh = s.queue();
  CHECK(nvme::cid_of(fresh.call(s.transfer(nvme::opcode::read, 3, 0))) == 3);
  CHECK(!fresh.poll());
}

TEST_CASE("nvme controller: event requests are kept, four of them, and logs are empty") {
  scene s{small_disk()};
  host::dma_memory page{s.link.memory(), host::anonymous_memory(), 4096};
  page.data()[0] = std::byte{1};
  auto const log = [&](std::uint32_t dw10) {
    return nvme::status_of(s.plane.admin(
        nvme::make_admin(nvme::admin_opcode::get_log_page, 0, 0, {page.bus(), 0}, dw10)));
  };
  CHECK(log(127u << 16 | 2) == status::success);
  CHECK(page.data()[0] == std::byte{0});
  CHECK(log(127u << 16 | 0x70) == status::invalid_log_page);
  CHECK(log(0xffffu << 16 | 2) == status::invalid_field);
  nvme::cqe const abort = s.plane.admin(nvme::make_admin(nvme::admin_opcode::abort, 0, 0));
  CHECK(nvme::status_of(abort) == status::success);
  CHECK(abort.dw[0] == 1);
}

TEST_CASE("nvme controller: queues that were not granted cannot be made until a reset") {
  scene s{small_disk()};
  CHECK(s.plane.request_queues(3) == 3);
  CHECK(s.plane.request_queues(4) == 3);
  CHECK(s.plane.create_queue_pair(3, 16).id == 3);
  CHECK_THROWS_WITH_AS(static_cast<void>(s.plane.create_queue_pair(4, 16)),
                       "nvme: creation of completion queue 4: status 101h", host::command_error);
  s.plane.bring_up();
  CHECK(s.plane.create_queue_pair(4, 16).id == 4);  // nobody has asked
  s.plane.bring_up();
  CHECK(s.plane.request_queues(4) == 4);
}

TEST_CASE("nvme controller: identify has what NVMe 1.4 demands") {
  auto const page_of = [](scene& s) {
    host::dma_memory const page{s.link.memory(), host::anonymous_memory(), 4096};
    auto const kind = static_cast<std::uint32_t>(nvme::identify_kind::controller);
    auto const command =
        nvme::make_admin(nvme::admin_opcode::identify, 0, 0, {page.bus(), 0}, kind);
    REQUIRE(nvme::status_of(s.plane.admin(command)) == status::success);
    return std::vector<unsigned char>(reinterpret_cast<unsigned char*>(page.data()),
                                      reinterpret_cast<unsigned char*>(page.data()) + 4096);
  };
  auto const name_in = [](std::vector<unsigned char> const& page) {
    return std::string{reinterpret_cast<char const*>(page.data() + 768)};
  };
  scene s{small_disk()};
  auto const page = page_of(s);
  CHECK(page[111] == 1);  // CNTRLTYPE: an I/O controller
  CHECK(page[259] == 3);  // AERL: four event requests
  std::string const prefix = "nqn.2014-08.org.nvmexpress:uuid:";
  std::string const name = name_in(page);
  CHECK(name.starts_with(prefix));
  CHECK(name.size() == prefix.size() + 36);
  CHECK(name[prefix.size() + 14] == '4');
  CHECK(name_in(page_of(s)) == name);
  scene other{small_disk()};
  CHECK(name_in(page_of(other)) != name);
}

TEST_CASE("nvme controller: doorbell values beyond the queue are counted and do no harm") {
  scene s{small_disk()};
  auto const& pair = s.plane.create_queue_pair(1, 16);
  plain_queue queue{pair};
  std::atomic_ref<std::uint32_t>{*pair.sq_doorbell}.store(16);
  auto const& counters = s.link.controller().counters();
  gpufs::test::wait_until([&] { return counters.bad_doorbells > 0; }, "the doorbell is seen");
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 5))) == 0);
  CHECK(gpufs::test::is_pattern(s.memory.data(), 5, 1));
  CHECK_FALSE(s.plane.failed());
}

TEST_CASE("nvme controller: a bad doorbell is counted once, however often it is looked at") {
  scene s{small_disk()};
  auto const& pair = s.plane.create_queue_pair(1, 16);
  plain_queue queue{pair}, other{s.plane.create_queue_pair(2, 16)};
  auto const& counters = s.link.controller().counters();
  std::atomic_ref<std::uint32_t> const head{*pair.cq_doorbell};
  // The thread looks at both queues in each pass.
  auto const several_passes = [&] {
    for (std::uint16_t i = 0; i < 10; ++i)
      CHECK(nvme::status_of(other.call(s.transfer(nvme::opcode::read, i, 5))) == 0);
  };
  head.store(32);
  queue.push(s.transfer(nvme::opcode::read, 1, 5));
  queue.ring();
  wait_until([&] { return counters.bad_doorbells > 0; }, "the doorbell is seen");
  several_passes();
  CHECK(counters.bad_doorbells.load() == 1);
  CHECK_FALSE(queue.poll().has_value());
  head.store(0xffffffff);
  wait_until([&] { return counters.bad_doorbells > 1; }, "the other value is seen");
  several_passes();
  CHECK(counters.bad_doorbells.load() == 2);
  head.store(0);
  CHECK(nvme::status_of(queue.wait()) == 0);
  std::atomic_ref<std::uint32_t>{*pair.sq_doorbell}.store(0xffffffff);
  wait_until([&] { return counters.bad_doorbells > 2; }, "the tail is seen");
  several_passes();
  CHECK(counters.bad_doorbells.load() == 3);
}

TEST_CASE("nvme controller: bad settings at CC.EN = 1 are a fatal error, and a reset ends it") {
  scene s{small_disk()};
  REQUIRE(s.plane.stop());
  auto const registers = s.link.registers();
  registers.store(nvme::reg::cc, nvme::reg::cc_enable | nvme::reg::cc_entry_sizes | 1u << 7);
  gpufs::test::wait_until([&] { return s.plane.failed(); }, "CSTS.CFS");
  s.plane.bring_up();
  CHECK_FALSE(s.plane.failed());
  plain_queue queue = s.queue();
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 5))) == 0);
}

namespace {

/// Faults that a test switches.
struct switched_faults : controller::fault_plan {
  std::atomic<bool> fail{false}, leave{false}, keep{false}, hold{false};
  bool fails() override { return fail; }
  bool gone() override { return leave; }
  bool keeps_ready() override { return keep; }
  std::size_t posts_now(std::uint16_t, std::size_t ready) override { return hold ? 0 : ready; }
};

}  // namespace

TEST_CASE("nvme control: a controller that fails is reported, and works after a reset") {
  auto const faults = std::make_shared<switched_faults>();
  scene s{small_disk(), faults};
  static_cast<void>(s.queue());
  faults->fail = true;
  gpufs::test::wait_until([&] { return s.plane.failed(); }, "CSTS.CFS");
  CHECK_THROWS_AS(static_cast<void>(s.plane.identify_controller()), host::controller_error);
  faults->fail = false;
  s.plane.bring_up();
  plain_queue queue = s.queue();
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, 5))) == 0);
}

TEST_CASE("nvme control: one that fails as it shuts down is an error, and nobody waits for it") {
  auto const faults = std::make_shared<switched_faults>();
  host::software_link link{{.namespaces = {small_disk()}, .faults = faults}};
  host::control_plane plane{link, {.admin_timeout = std::chrono::hours{1}}};
  plane.bring_up();
  faults->fail = true;
  wait_until([&] { return plane.failed(); }, "CSTS.CFS");
  CHECK_THROWS_WITH_AS(plane.shut_down(), doctest::Contains("CSTS.CFS"), host::controller_error);
}

TEST_CASE("nvme control: a controller that never started is disabled at the end, not shut down") {
  auto const faults = std::make_shared<switched_faults>();
  faults->keep = true;
  host::software_link link{{.namespaces = {small_disk()}, .faults = faults}};
  {
    host::control_plane plane{link, {.admin_timeout = std::chrono::hours{1}}};
    CHECK_THROWS_WITH_AS(plane.shut_down(), doctest::Contains("is not up"), host::controller_error);
    CHECK(link.registers().load(nvme::reg::cc) == 0);
    CHECK_THROWS_WITH_AS(plane.bring_up(), doctest::Contains("does not start"),
                         host::controller_error);
    CHECK_THROWS_AS(plane.shut_down(), host::controller_error);
  }
  CHECK(link.registers().load(nvme::reg::cc) == 0);
}

TEST_CASE("nvme control: a controller that leaves is an error in every call, and nothing hangs") {
  auto const faults = std::make_shared<switched_faults>();
  scene s{small_disk(), faults};
  static_cast<void>(s.queue());
  faults->leave = true;
  gpufs::test::wait_until([&] { return s.plane.failed(); }, "registers of ones");
  CHECK_THROWS_AS(static_cast<void>(s.plane.identify_controller()), host::controller_error);
  CHECK_THROWS_AS(s.plane.shut_down(), host::controller_error);
  CHECK_FALSE(s.plane.stop());
  CHECK_THROWS_AS(s.plane.bring_up(), host::controller_error);
  CHECK_THROWS_AS(host::control_plane{s.link}, host::controller_error);
}

TEST_CASE("nvme control: a controller whose ready bit stays is given up") {
  auto const faults = std::make_shared<switched_faults>();
  scene s{small_disk(), faults};
  static_cast<void>(s.queue());
  faults->keep = true;
  CHECK_FALSE(s.plane.stop());
  CHECK_THROWS_AS(s.plane.bring_up(), host::controller_error);
  CHECK_THROWS_AS(static_cast<void>(s.plane.identify_controller()), host::controller_error);
  faults->keep = false;
}

TEST_CASE("nvme control: an event request that is never answered ends with an error in time") {
  host::software_link link{{.namespaces = {small_disk()}}};
  host::control_plane plane{link, {.admin_timeout = std::chrono::seconds{1}}};
  plane.bring_up();
  nvme::sqe const wait = nvme::make_admin(nvme::admin_opcode::async_event_request, 0, 0);
  CHECK_THROWS_AS(static_cast<void>(plane.admin(wait)), host::controller_error);
  CHECK(plane.identify_namespace(1).blocks == 2048);
}

TEST_CASE("nvme control: a controller whose queues are too short is refused") {
  for (std::uint32_t const entries : {2u, 3u, 31u}) {
    CAPTURE(entries);
    host::software_link link{{.namespaces = {}, .entries = entries}};
    std::string const wanted =
        "nvme: the controller has queues of " + std::to_string(entries) + " entries, 32 are needed";
    CHECK_THROWS_WITH_AS(host::control_plane{link}, wanted.c_str(), host::controller_error);
  }
  host::software_link link{{.namespaces = {}, .entries = 32}};
  CHECK(host::control_plane{link}.most_depth() == 16);
}

TEST_CASE("nvme control: depths that are no power of two, or too large, are refused") {
  host::software_link link{{.namespaces = {small_disk()}, .entries = 64}};
  host::control_plane plane{link};
  plane.bring_up();
  CHECK(plane.most_depth() == 32);
  for (std::uint32_t const depth : {0u, 8u, 24u, 64u})
    CHECK_THROWS_AS(static_cast<void>(plane.create_queue_pair(1, depth)), host::controller_error);
  CHECK_THROWS_AS(static_cast<void>(plane.create_queue_pair(1000, 16)), host::controller_error);
  CHECK(plane.create_queue_pair(1, 32).depth == 32);
  CHECK_THROWS_AS(static_cast<void>(plane.request_queues(0)), host::controller_error);
}

TEST_CASE("nvme control: a deleted queue ends its commands with a status, new ones are clean") {
  auto const faults = std::make_shared<switched_faults>();
  scene s{small_disk(), faults};
  auto const& pair = s.plane.create_queue_pair(1, 16);
  plain_queue queue{pair};
  faults->hold = true;
  for (std::uint16_t i = 0; i < 5; ++i) queue.push(s.transfer(nvme::opcode::read, i, 5));
  queue.ring();
  auto const& counters = s.link.controller().counters();
  gpufs::test::wait_until([&] { return counters.commands == 5; }, "the commands are taken");
  nvme::sqe const gone = nvme::make_admin(nvme::admin_opcode::delete_sq, 0, 0, {}, 1);
  CHECK(nvme::status_of(s.plane.admin(gone)) == status::success);
  for (unsigned i = 0; i < 5; ++i) CHECK(nvme::status_of(queue.wait()) == status::sq_deleted);
  CHECK(s.plane.stop());
}

TEST_CASE("nvme controller: memory that is unmapped under load is never touched again") {
  scene s{small_disk()};
  plain_queue queue = s.queue(1024);
  std::mt19937_64 random{gpufs::test::seed()};
  for (unsigned round = 0; round < 50; ++round) {
    std::byte copy{};
    {
      host::dma_memory memory{s.link.memory(), host::anonymous_memory(), 1 << 16};
      for (std::uint16_t i = 0; i < 200; ++i)
        queue.push(nvme::make_transfer(nvme::opcode::read, i, 1, {random() % 1000, 8},
                                       {memory.bus() + i % 16 * 4096, 0}));
      queue.ring();
      copy = memory.data()[0];
    }
    static_cast<void>(copy);
    for (unsigned i = 0; i < 200; ++i) {
      std::uint16_t const code = nvme::status_of(queue.wait());
      CHECK((code == status::success || code == status::data_transfer_error));
    }
  }
}
