// Conformance: bring-up, identify, queues that come and go, resets.
#include <test/nvme/conformance_scene.hpp>

#include <algorithm>
#include <vector>

namespace gpufs::test {

namespace {

namespace status = nvme::status;
using nvme::admin_opcode;

constexpr std::uint32_t contiguous = 1;

std::uint32_t sized(std::uint32_t entries, std::uint32_t id) { return (entries - 1) << 16 | id; }

TEST_CASE("conformance: the controller and its namespace tell what they are") {
  conformance_scene scene;
  auto const seen = scene.plane.identify_controller();
  CHECK_FALSE(seen.model.empty());
  CHECK(seen.model.back() != ' ');
  CHECK(seen.namespaces >= 1);
  CHECK((seen.most_bytes == 0 || seen.most_bytes >= 4096));
  auto const blocks = scene.plane.identify_namespace(1);
  CHECK(blocks.blocks == pattern_blocks);
  CHECK(blocks.lba_bytes == pattern_lba);
  CHECK_THROWS_AS(static_cast<void>(scene.plane.identify_namespace(9)),
                  nvme_host::controller_error);
  CHECK_THROWS_AS(static_cast<void>(scene.plane.identify_namespace(0xfffffff0u)),
                  nvme_host::command_error);
  CHECK(scene.plane.capabilities().most_entries() >= 32);
}

TEST_CASE("conformance: queues are granted, and get features tells how many") {
  conformance_scene scene;
  CHECK(scene.plane.request_queues(4) == 4);
  std::uint32_t const many = scene.plane.request_queues(65534);
  CHECK(many >= 4);
  nvme::cqe const told = scene.plane.admin(
      nvme::make_admin(admin_opcode::get_features, 0, 0, {}, nvme::feature_queue_count));
  CHECK(nvme::status_of(told) == status::success);
  std::uint32_t const sqs = (told.dw[0] & 0xffff) + 1, cqs = (told.dw[0] >> 16) + 1;
  CHECK(sqs >= many);
  // Numbers beyond are of no queue.
  CHECK(scene.admin(admin_opcode::create_cq, sized(16, cqs + 1), contiguous, scene.piece.bus()) ==
        status::invalid_queue_id);
  CHECK(scene.admin(admin_opcode::create_cq, sized(16, 1), contiguous, scene.piece.bus()) ==
        status::success);
  CHECK(scene.admin(admin_opcode::create_sq, sized(16, sqs + 1), 1u << 16 | contiguous,
                    scene.piece.bus() + 8192) == status::invalid_queue_id);
}

TEST_CASE("conformance: how many queues there are is asked before the first one is made") {
  conformance_scene scene;
  constexpr std::uint16_t command_sequence_error = 0x00c;
  auto const ask = [&] {
    return scene.admin(admin_opcode::set_features, nvme::feature_queue_count, 3u << 16 | 3);
  };
  CHECK(ask() == status::success);
  static_cast<void>(scene.plane.create_queue_pair(1, 16));
  CHECK(ask() == command_sequence_error);
  scene.plane.delete_queue_pair(1);
  CHECK(ask() == command_sequence_error);
  CHECK(scene.plane.stop());
  scene.plane.bring_up();
  CHECK(ask() == status::success);
}

TEST_CASE("conformance: creation and deletion of queues refuse what is wrong") {
  conformance_scene scene;
  std::uint64_t const bus = scene.piece.bus();
  std::uint32_t const most = scene.plane.capabilities().most_entries();
  struct {
    char const* what;
    admin_opcode code;
    std::uint32_t dw10, dw11;
    std::uint64_t memory;
    std::uint16_t status;
  } const steps[] = {
      {"CQ 0", admin_opcode::create_cq, sized(16, 0), contiguous, bus, status::invalid_queue_id},
      {"CQ 60000", admin_opcode::create_cq, sized(16, 60000), contiguous, bus,
       status::invalid_queue_id},
      {"CQ of one entry", admin_opcode::create_cq, sized(1, 1), contiguous, bus,
       status::invalid_queue_size},
      {"CQ that is too large", admin_opcode::create_cq, sized(most + 1, 1), contiguous, bus,
       status::invalid_queue_size},
      {"CQ within a page", admin_opcode::create_cq, sized(16, 1), contiguous, bus + 64,
       status::invalid_prp_offset},
      {"CQ in pieces", admin_opcode::create_cq, sized(16, 1), 0, bus, status::invalid_field},
      {"SQ without its CQ", admin_opcode::create_sq, sized(16, 1), 1u << 16 | contiguous, bus,
       status::invalid_cq},
      {"CQ 1", admin_opcode::create_cq, sized(16, 1), contiguous, bus, status::success},
      {"CQ 1 again", admin_opcode::create_cq, sized(16, 1), contiguous, bus,
       status::invalid_queue_id},
      {"SQ 0", admin_opcode::create_sq, sized(16, 0), 1u << 16 | contiguous, bus + 8192,
       status::invalid_queue_id},
      {"SQ that is too large", admin_opcode::create_sq, sized(most + 1, 1), 1u << 16 | contiguous,
       bus + 8192, status::invalid_queue_size},
      {"SQ 1", admin_opcode::create_sq, sized(16, 1), 1u << 16 | contiguous, bus + 8192,
       status::success},
      {"SQ 1 again", admin_opcode::create_sq, sized(16, 1), 1u << 16 | contiguous, bus + 8192,
       status::invalid_queue_id},
      {"CQ 1 with its SQ deleted", admin_opcode::delete_cq, 1, 0, 0,
       status::invalid_queue_deletion},
      {"SQ 7 deleted", admin_opcode::delete_sq, 7, 0, 0, status::invalid_queue_id},
      {"CQ 7 deleted", admin_opcode::delete_cq, 7, 0, 0, controller_traits().missing_cq_status},
      {"SQ 1 deleted", admin_opcode::delete_sq, 1, 0, 0, status::success},
      {"SQ 1 deleted twice", admin_opcode::delete_sq, 1, 0, 0, status::invalid_queue_id},
      {"CQ 1 deleted", admin_opcode::delete_cq, 1, 0, 0, status::success},
  };
  for (auto const& step : steps) {
    CAPTURE(step.what);
    // The size 65537 wraps to 1, so a controller with as many entries has another answer.
    if ((step.dw10 >> 16) == 0 && step.status == status::invalid_queue_size && most >= 65536)
      continue;
    CHECK(scene.admin(step.code, step.dw10, step.dw11, step.memory) == step.status);
  }
  nvme::sqe unknown = nvme::make_admin(admin_opcode::identify, 0, 0);
  unknown.dw[0] = 0x7e;
  CHECK(nvme::status_of(scene.plane.admin(unknown)) == status::invalid_opcode);
  CHECK(scene.admin(admin_opcode::identify, 0x77, 0, bus) == status::invalid_field);
}

TEST_CASE("conformance: a full completion queue stops the controller, not the commands") {
  conformance_scene scene;
  nvme_host::register_file const registers = conformance_link().registers();
  std::uint32_t const stride = scene.plane.capabilities().doorbell_stride();
  constexpr std::uint32_t cq_entries = 16, sq_entries = 64, sent = 40;
  std::uint64_t const places = conformance_scene::piece_bytes - 4 * 4096;  // behind the data
  CHECK(scene.admin(admin_opcode::create_cq, sized(cq_entries, 6), contiguous,
                    scene.piece.bus() + places) == status::success);
  CHECK(scene.admin(admin_opcode::create_sq, sized(sq_entries, 7), 6u << 16 | contiguous,
                    scene.piece.bus() + places + 4096) == status::success);
  plain_queue queue{reinterpret_cast<nvme::sqe*>(scene.piece.data() + places + 4096),
                    sq_entries,
                    reinterpret_cast<nvme::cqe*>(scene.piece.data() + places),
                    cq_entries,
                    registers.at(nvme::sq_doorbell(7, stride)),
                    registers.at(nvme::cq_doorbell(6, stride))};
  for (std::uint16_t i = 0; i < sent; ++i)
    queue.push(scene.read(i, i * 8u, 8, std::uint64_t{i} * 4096));
  queue.ring();
  wait_until([&] { return queue.posted() == cq_entries - 1; }, "15 completions");
  std::uint64_t seen = 0;
  for (unsigned i = 0; i < sent; ++i) {
    nvme::cqe const done = queue.wait();
    CHECK(nvme::status_of(done) == status::success);
    CHECK(nvme::sq_id_of(done) == 7);
    seen |= 1ull << nvme::cid_of(done);
  }
  CHECK(seen == (1ull << sent) - 1);
  for (std::uint16_t i = 0; i < sent; ++i)
    CHECK(is_pattern(scene.piece.data() + std::size_t{i} * 4096, i * 8u, 8));
}

TEST_CASE("conformance: all granted queue pairs work side by side") {
  conformance_scene scene;
  std::uint32_t const granted = scene.plane.request_queues(8);
  std::vector<plain_queue> queues;
  for (std::uint16_t id = 1; id <= granted; ++id)
    queues.emplace_back(scene.plane.create_queue_pair(id, 32));
  for (unsigned round = 0; round < 20; ++round) {
    for (std::uint32_t q = 0; q < granted; ++q)
      for (std::uint16_t i = 0; i < 4; ++i) {
        queues[q].push(scene.read(i, 100 * q + 8 * i + round, 8, (q * 4 + i) * 4096ull));
        queues[q].ring();
      }
    for (std::uint32_t q = 0; q < granted; ++q)
      for (unsigned i = 0; i < 4; ++i) {
        nvme::cqe const done = queues[q].wait();
        CHECK(nvme::status_of(done) == status::success);
        CHECK(nvme::sq_id_of(done) == q + 1);
      }
    for (std::uint32_t q = 0; q < granted; ++q)
      for (std::uint32_t i = 0; i < 4; ++i)
        CHECK(is_pattern(scene.piece.data() + (q * 4 + i) * 4096, 100 * q + 8 * i + round, 8));
  }
  CHECK_THROWS_AS(scene.plane.create_queue_pair(1, 32), nvme_host::controller_error);
  scene.plane.delete_queue_pair(1);
  CHECK_THROWS_AS(scene.plane.delete_queue_pair(1), nvme_host::controller_error);
  plain_queue again{scene.plane.create_queue_pair(1, 16)};
  CHECK(nvme::status_of(again.call(scene.read(1, 5, 1))) == status::success);
}

TEST_CASE("conformance: after a reset with commands under way new queues work") {
  conformance_scene scene;
  for (unsigned round = 0; round < 5; ++round) {
    plain_queue queue{scene.plane.create_queue_pair(4, 64)};
    for (std::uint16_t i = 0; i < 40; ++i)
      queue.push(scene.read(i, i * 8u, 8, std::uint64_t{i} * 4096));
    queue.ring();
    CHECK(scene.plane.stop());
    // No byte changes any more.
    std::memset(scene.piece.data(), 0x33, scene.piece.bytes());
    scene.plane.bring_up();
    CHECK(std::all_of(scene.piece.data(), scene.piece.data() + scene.piece.bytes(),
                      [](std::byte b) { return b == std::byte{0x33}; }));
    plain_queue fresh{scene.plane.create_queue_pair(4, 64)};
    for (std::uint16_t i = 0; i < 100; ++i) {
      CHECK(nvme::status_of(fresh.call(scene.read(i, i * 5u, 1))) == status::success);
      CHECK(is_pattern(scene.piece.data(), i * 5u, 1));
    }
    scene.plane.delete_queue_pair(4);
  }
}

TEST_CASE("conformance: a controller that was shut down comes up again") {
  conformance_scene scene;
  static_cast<void>(scene.plane.create_queue_pair(1, 16));
  scene.plane.shut_down();
  CHECK_THROWS_AS(static_cast<void>(scene.plane.identify_controller()),
                  nvme_host::controller_error);
  scene.plane.bring_up();
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  CHECK(nvme::status_of(queue.call(scene.read(1, 5, 1))) == status::success);
  CHECK(is_pattern(scene.piece.data(), 5, 1));
}

}  // namespace

}  // namespace gpufs::test
