// Queue pairs against a controller that makes faults: any order, lost and doubled completions, lost
// doorbells, statuses, resets under load.
#include <test/nvme/queue_scene.hpp>
#include <test/nvme/statuses.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-host/software.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace gpufs::test {

namespace {

namespace controller = nvme_controller;
namespace status = nvme::status;

constexpr std::uint64_t short_wait_ns = 20'000'000;

/// Faults that tests switch on and off.
struct test_faults : controller::fault_plan {
  std::atomic<controller::fault::kind> kind{controller::fault::kind::none};
  std::atomic<std::uint32_t> one_in{1};  // commands that have the fault
  std::atomic<std::uint64_t> seen{0};    // commands
  std::atomic<bool> statuses{false};     // the status of a command follows from its block
  std::atomic<bool> lose_doorbells{false};
  std::atomic<bool> shuffle{false};
  std::atomic<bool> hold{false};
  std::atomic<bool> in_laps{false};  // completions come when no more commands do
  std::atomic<bool> fail{false};
  std::mutex mutex;
  std::mt19937_64 random{seed()};
  struct calm_queue {
    std::size_t ready = 0;
    unsigned passes = 0;  // without a change
  };
  calm_queue calm[controller::most_queues + 1];

  std::uint64_t draw() {
    std::lock_guard const lock{mutex};
    return random();
  }
  controller::fault on_command(std::uint16_t, nvme::sqe const& entry) override;
  bool loses_doorbell(std::uint16_t, std::uint32_t) override { return lose_doorbells; }
  std::size_t posts_now(std::uint16_t queue, std::size_t ready) override {
    if (hold) return 0;
    if (in_laps) {
      std::lock_guard const lock{mutex};
      calm_queue& seen_before = calm[queue];
      seen_before.passes = ready == seen_before.ready ? seen_before.passes + 1 : 0;
      seen_before.ready = ready;
      return seen_before.passes < 30 ? 0 : ready;
    }
    return shuffle ? draw() % (ready + 1) : ready;
  }
  std::size_t next_posted(std::uint16_t, std::size_t ready) override {
    return shuffle ? draw() % ready : 0;
  }
  bool fails() override { return fail; }
};

/// Commands for block first_status + i end with this.
constexpr std::uint64_t first_status = 1000;
constexpr auto& injected = final_statuses;
constexpr std::uint64_t injected_count = std::size(injected);
/// Commands for these blocks end with a status that is worth another try, this many times.
constexpr std::uint64_t retried_block = 2000, hopeless_block = 2001;
std::atomic<unsigned> tries_left{0}, hopeless_tries{0};

controller::fault test_faults::on_command(std::uint16_t, nvme::sqe const& entry) {
  using kinds = controller::fault::kind;
  std::uint64_t const number = seen.fetch_add(1);
  std::uint64_t const lba = nvme::lba_of(entry);
  if (statuses && lba >= first_status && lba < first_status + injected_count)
    return {kinds::status, injected[lba - first_status]};
  if (statuses && lba == retried_block && tries_left > 0) {
    --tries_left;
    return {kinds::status, status::namespace_not_ready};
  }
  if (statuses && lba == hopeless_block) {
    ++hopeless_tries;
    return {kinds::status, 0x303};
  }
  if (kind != kinds::none && number % one_in == one_in - 1u) return {kind, 0};
  return {};
}

/// A controller with faults, and groups of queue pairs that follow each other.
struct fault_scene {
  std::shared_ptr<test_faults> faults = std::make_shared<test_faults>();
  nvme_host::software_link link;
  nvme_host::control_plane plane{link, {.memory = pinned_memory()}};
  nvme_host::dma_memory data;
  buffer<read_counts> counts = zeroed<read_counts>(1);
  std::uint16_t next_id = 1;

  explicit fault_scene(std::uint64_t bytes)
      : link{{.namespaces = {disk()}, .threads = 2, .faults = faults},
             pinned_memory(),
             std::uint64_t{1} << 44},
        data{link.memory(), pinned_memory(), bytes} {
    plane.bring_up();
  }
  ~fault_scene() { CHECK(plane.stop()); }

  static std::shared_ptr<controller::block_namespace> disk() {
    auto made =
        std::make_shared<controller::memory_namespace>(pattern_blocks * pattern_lba, pattern_lba);
    fill_pattern(made->bytes(), 0);
    return made;
  }
  /// A kernel that still rings for pairs of before meets no new ones: they have other numbers.
  std::vector<nvme::queue_pair_place> new_pairs(std::uint32_t pairs, std::uint32_t depth) {
    std::vector<nvme::queue_pair_place> places;
    for (std::uint32_t i = 0; i < pairs; ++i) {
      auto const& made = plane.create_queue_pair(next_id, depth);
      places.push_back({next_id, depth, made.sq, made.cq, made.sq_doorbell, made.cq_doorbell});
      next_id = next_id == controller::most_queues ? 1 : static_cast<std::uint16_t>(next_id + 1);
    }
    return places;
  }
  [[nodiscard]] read_plan plan(nvme::queue_group const& group, std::uint32_t rounds) const {
    return {group.ref(), data.data(), data.bus(), 512, rounds, 1, 900, seed(), 0};
  }
  read_counts read(nvme::queue_group const& group, unsigned blocks, unsigned threads,
                   std::uint32_t rounds) {
    counts.fill_zero();
    launch(read_kernel<base::whole_warp>, blocks, threads, plan(group, rounds), counts.data());
    return result_in(counts)[0];
  }
};

constexpr unsigned grid = 4, block = 64;
constexpr std::uint64_t slots_bytes = std::uint64_t{grid} * block * 512;

TEST_CASE("nvme faults: completions in any order find their commands, lap after lap") {
  fault_scene scene{slots_bytes};
  scene.faults->shuffle = true;
  nvme::queue_group const group{scene.new_pairs(1, 16)};
  unsigned const rounds = scaled(60, 8);
  read_counts const seen = scene.read(group, grid, block, rounds);
  CHECK(seen.right > grid * block * rounds / 2);
  CHECK(seen.wrong + seen.late + seen.failed + seen.refused == 0);
  CHECK(group.counts().strays == 0);
  CHECK(group.channels_taken() == 0);
}

TEST_CASE("nvme faults: a controller that answers nothing for long and then a lap at once") {
  fault_scene scene{slots_bytes};
  scene.faults->in_laps = true;
  nvme::queue_group const group{scene.new_pairs(2, 16)};
  read_counts const seen = scene.read(group, grid, block, 4);
  CHECK(seen.right > 0);
  CHECK(seen.wrong + seen.late + seen.failed + seen.refused == 0);
}

__global__ void status_kernel(read_plan plan, std::uint64_t first, std::uint32_t count,
                              nvme::direction to, std::int32_t* errors) {
  std::uint32_t const thread = grid_thread();
  nvme::transfer_request const request{
      to, {first + thread, 1}, slot_memory(plan, thread, pattern_lba)};
  errors[thread] = nvme::transfer<base::whole_warp>(plan.group, thread < count, request);
}

TEST_CASE("nvme faults: each status reaches its own lane as its error") {
  fault_scene scene{slots_bytes};
  nvme::queue_group const group{scene.new_pairs(1, 64)};
  scene.faults->statuses = true;
  for (auto const to : {nvme::direction::read, nvme::direction::write}) {
    auto errors = zeroed<std::int32_t>(32);
    launch(status_kernel, 1, 32, scene.plan(group, 1), first_status, 32u, to, errors.data());
    auto const seen = result_in(errors);
    for (unsigned i = 0; i < 32; ++i) {
      CAPTURE(i);
      std::uint16_t const code = i < injected_count ? injected[i] & 0x7ff : 0;
      CHECK(seen[i] == nvme::error_of(code, to));
    }
  }
  CHECK(group.counts().own_faults == 6);
}

TEST_CASE("nvme faults: statuses worth another try are tried three more times") {
  fault_scene scene{slots_bytes};
  nvme::queue_group const group{scene.new_pairs(1, 16)};
  scene.faults->statuses = true;
  for (unsigned const failures : {1u, 3u, 4u}) {
    tries_left = failures;
    hopeless_tries = 0;
    auto errors = zeroed<std::int32_t>(32);
    launch(status_kernel, 1, 32, scene.plan(group, 1), retried_block, 2u, nvme::direction::read,
           errors.data());
    auto const seen = result_in(errors);
    CHECK(seen[0] == (failures <= nvme::most_retries ? 0 : -EIO));
    CHECK(seen[1] == -EIO);
    CHECK(hopeless_tries == 1 + nvme::most_retries);
  }
}

TEST_CASE("nvme faults: a completion that comes twice, or of no command, is a stray") {
  for (auto const kind : {controller::fault::kind::twice, controller::fault::kind::foreign}) {
    fault_scene scene{slots_bytes};
    nvme::queue_group const group{scene.new_pairs(1, 16)};
    scene.faults->one_in = 7;
    scene.faults->kind = kind;
    scene.faults->shuffle = true;
    read_counts const seen = scene.read(group, grid, block, scaled(12, 4));
    CHECK(seen.right > 0);
    CHECK(seen.wrong + seen.late + seen.failed + seen.refused == 0);
    CHECK(group.strays() > 0);
    CHECK(group.strays() == group.counts().strays);
  }
}

TEST_CASE("nvme faults: a lost completion ends one wait, and its channel stays away") {
  fault_scene scene{slots_bytes};
  nvme::queue_group const group{scene.new_pairs(1, 64), {.timeout_ns = short_wait_ns}};
  scene.faults->one_in = 50;
  scene.faults->kind = controller::fault::kind::lose;
  read_counts const seen = scene.read(group, 1, 32, 4);
  CHECK(seen.late >= 1);
  CHECK(seen.wrong + seen.refused + seen.failed == 0);
  CHECK(group.timeouts() >= seen.late);
  CHECK(group.channels_taken() >= 1);
  CHECK(group.channels_taken() <= group.timeouts());
  // Reset: new queues with new memory.
  scene.faults->kind = controller::fault::kind::none;
  REQUIRE(scene.plane.stop());
  scene.plane.bring_up();
  nvme::queue_group const fresh{scene.new_pairs(1, 64)};
  read_counts const now = scene.read(fresh, grid, block, 4);
  CHECK(now.right > 0);
  CHECK(now.wrong + now.late + now.failed + now.refused == 0);
}

TEST_CASE("nvme faults: a lost doorbell ends the waits, and queues that are made anew work") {
  fault_scene scene{slots_bytes};
  nvme::queue_group const group{scene.new_pairs(1, 64), {.timeout_ns = short_wait_ns}};
  scene.faults->lose_doorbells = true;
  read_counts const seen = scene.read(group, 1, 32, 1);
  CHECK(seen.late > 0);
  CHECK(seen.right + seen.wrong + seen.failed + seen.refused == 0);
  scene.faults->lose_doorbells = false;
  REQUIRE(scene.plane.stop());
  scene.plane.bring_up();
  nvme::queue_group const fresh{scene.new_pairs(1, 64)};
  CHECK(scene.read(fresh, grid, block, 4).right > 0);
}

TEST_CASE(
    "nvme faults: callers that give up leave all channels in quarantine, until answers come") {
  fault_scene scene{slots_bytes};
  // One group whose waits are short, and one of the same pairs with long ones.
  auto const places = scene.new_pairs(1, 16);
  nvme::queue_group const group{places, {.timeout_ns = short_wait_ns}};
  scene.faults->hold = true;
  read_counts const seen = scene.read(group, grid, block, 1);
  CHECK(seen.late > 0);
  CHECK(seen.right == 0);
  CHECK(group.channels_taken() == 15);
  scene.faults->hold = false;
  // The late answers free the channels: the next callers find them.
  std::uint64_t right = 0;
  wait_until(
      [&] {
        right = scene.read(group, 1, 32, 1).right;
        return right > 0;
      },
      "a channel comes back");
  nvme::queue_group_ref patient = group.ref();
  patient.timeout_ns = 60'000'000'000;
  read_plan plan = scene.plan(group, scaled(40, 4));
  plan.group = patient;
  scene.counts.fill_zero();
  launch(read_kernel<base::whole_warp>, grid, block, plan, scene.counts.data());
  read_counts const now = result_in(scene.counts)[0];
  CHECK(now.right > 0);
  CHECK(now.wrong + now.late + now.failed + now.refused == 0);
  CHECK(group.channels_taken() == 0);
  CHECK(group.strays() == 0);
}

/// Sends commands and ends without a look at their answers.
__global__ void leave_under_way(read_plan plan) {
  nvme::channel c;
  bool const got = nvme::try_channels<base::whole_warp>(plan.group, base::warp_number(), true,
                                                        nvme::direction::read, c);
  nvme::submit<base::whole_warp>(
      plan.group, got, c,
      nvme::make_transfer(nvme::opcode::read, 0, 1, {grid_thread(), 1},
                          slot_memory(plan, grid_thread(), pattern_lba)));
  if (got) nvme::return_channel(plan.group, c, false);
}

TEST_CASE("nvme faults: blocks that end with commands under way leave no channel behind") {
  fault_scene scene{2 * slots_bytes};
  scene.faults->shuffle = true;
  nvme::queue_group const group{scene.new_pairs(1, 16)};
  read_plan left = scene.plan(group, 1);
  left.data += slots_bytes;
  left.bus += slots_bytes;
  for (unsigned round = 0; round < 4; ++round) {
    launch(leave_under_way, grid, block, left);
    this_thread_stream().synchronize();
    CHECK(group.channels_taken() > 0);
    CHECK_FALSE(group.left_locked());
    wait_until(
        [&] {
          read_counts const seen = scene.read(group, grid, block, 1);
          CHECK(seen.right > 0);
          CHECK(seen.wrong + seen.late + seen.failed + seen.refused == 0);
          return group.channels_taken() == 0;
        },
        "all channels come back");
  }
  CHECK(group.strays() == 0);
}

TEST_CASE("nvme faults: a controller that fails ends all waits") {
  fault_scene scene{slots_bytes};
  nvme::queue_group group{scene.new_pairs(2, 16)};
  scene.faults->hold = true;
  scene.counts.fill_zero();
  read_plan plan = scene.plan(group, 1000);
  plan.stop_after_error = 1;
  launch(read_kernel<base::whole_warp>, grid, block, plan, scene.counts.data());
  wait_until([&] { return scene.faults->seen >= 30; }, "both queues are full");
  scene.faults->fail = true;
  wait_until([&] { return scene.plane.failed(); }, "CSTS.CFS");
  group.fail();
  read_counts const seen = result_in(scene.counts)[0];
  CHECK(seen.failed == grid * block);
  CHECK(seen.right + seen.wrong + seen.late + seen.refused == 0);
  scene.faults->fail = scene.faults->hold = false;
}

}  // namespace

}  // namespace gpufs::test
