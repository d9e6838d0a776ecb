#include <nvme-controller/queue_set.hpp>

#include <algorithm>
#include <atomic>
#include <new>

namespace gpufs::nvme_controller {

namespace {

constexpr unsigned most_taken = 64;  // of one queue in one pass
/// CID of no command: the driver never gives it to one, as its low bits are all ones.
constexpr std::uint16_t foreign_cid = 0xffff;

}  // namespace

queue_set::completion_queue* queue_set::find_cq(std::uint16_t id) const {
  for (auto const& queue : cqs_)
    if (queue->place.id == id) return queue.get();
  return nullptr;
}
queue_set::submission_queue* queue_set::find_sq(std::uint16_t id) const {
  for (auto const& queue : sqs_)
    if (queue->place.id == id) return queue.get();
  return nullptr;
}

void queue_set::add_cq(queue_place const& place) {
  registers_.store(nvme::cq_doorbell(place.id, stride), 0);
  cqs_.push_back(std::make_unique<completion_queue>(completion_queue{.place = place, .ready = {}}));
}

void queue_set::add_sq(queue_place const& place, std::uint16_t cq) {
  registers_.store(nvme::sq_doorbell(place.id, stride), 0);
  sqs_.push_back(
      std::make_unique<submission_queue>(submission_queue{.place = place, .cq = find_cq(cq)}));
}

bool queue_set::in_use(std::uint16_t cq) const {
  return std::any_of(sqs_.begin(), sqs_.end(),
                     [cq](auto const& queue) { return queue->cq->place.id == cq; });
}

void queue_set::remove_cq(std::uint16_t id) {
  std::erase_if(cqs_, [id](auto const& queue) { return queue->place.id == id; });
}

bool queue_set::remove_sq(std::uint16_t id) {
  submission_queue* const queue = find_sq(id);
  if (queue == nullptr) return false;
  for (finished& done : queue->cq->ready)
    if (done.sq == id) done.result = outcome_of(nvme::status::sq_deleted);
  post(*queue->cq, true);
  // The queue is gone for completions that find no room; they would name it.
  std::erase_if(queue->cq->ready, [id](finished const& done) { return done.sq == id; });
  std::erase_if(sqs_, [id](auto const& each) { return each->place.id == id; });
  return true;
}

void queue_set::clear() {
  sqs_.clear();
  cqs_.clear();
}

void queue_set::drop_queues_in(std::byte const* memory, std::uint64_t bytes) {
  auto const inside = [=](queue_place const& place) {
    return place.memory >= memory && place.memory < memory + bytes;
  };
  std::erase_if(
      sqs_, [&](auto const& queue) { return inside(queue->place) || inside(queue->cq->place); });
  std::erase_if(cqs_, [&](auto const& queue) { return inside(queue->place); });
}

bool queue_set::pass() {
  bool worked = false;
  for (auto const& queue : sqs_) worked |= take(*queue);
  for (auto const& queue : cqs_) worked |= post(*queue, false);
  return worked;
}

bool queue_set::take(submission_queue& queue) {
  std::uint32_t const tail = registers_.load(nvme::sq_doorbell(queue.place.id, stride));
  if (tail == queue.head || tail == queue.missed) return false;
  if (tail >= queue.place.entries) {
    count(counters_.bad_doorbells);
    queue.missed = tail;
    return false;
  }
  if (faults_.loses_doorbell(queue.place.id, tail)) {
    queue.missed = tail;
    return false;
  }
  queue.missed.reset();
  for (unsigned taken = 0; queue.head != tail && taken < most_taken; ++taken) {
    // A copy of the object: ThreadSanitizer sees no memcpy of a known size.
    nvme::sqe const entry = reinterpret_cast<nvme::sqe const*>(queue.place.memory)[queue.head];
    queue.head = queue.head + 1 == queue.place.entries ? 0 : queue.head + 1;
    carry_out(queue, entry);
  }
  return true;
}

void queue_set::carry_out(submission_queue& queue, nvme::sqe const& entry) {
  bool const io = queue.place.id != 0;
  if (io) count(counters_.commands);
  fault const planned = io ? faults_.on_command(queue.place.id, entry) : fault{};
  outcome const result =
      planned.what == fault::kind::status ? outcome{.word = planned.word} : execute(queue, entry);
  if (io && result.word != 0) count(counters_.errors);
  if (!result.answers || planned.what == fault::kind::lose) return;
  auto& ready = queue.cq->ready;
  ready.push_back({queue.place.id, nvme::cid_of(entry), result});
  if (planned.what == fault::kind::twice) ready.push_back(ready.back());
  if (planned.what == fault::kind::foreign) ready.push_back({queue.place.id, foreign_cid, {}});
}

// Without memory the driver may try again.
outcome queue_set::execute(submission_queue const& queue, nvme::sqe const& entry) const {
  try {
    return execute_(queue.place.id, entry);
  } catch (std::bad_alloc const&) {
    return {.word = nvme::status::internal_error};
  }
}

void queue_set::answer(std::uint16_t sq, std::uint16_t cid, outcome const& result) {
  if (sq != 0 && result.word != 0) count(counters_.errors);
  if (submission_queue* const queue = find_sq(sq); queue != nullptr)
    queue->cq->ready.push_back({sq, cid, result});
}

std::uint32_t queue_set::room(completion_queue& queue) {
  std::uint32_t const head = registers_.load(nvme::cq_doorbell(queue.place.id, stride));
  if (head >= queue.place.entries) {
    if (head != queue.bad_head) count(counters_.bad_doorbells);
    queue.bad_head = head;
    return 0;
  }
  queue.bad_head.reset();
  std::uint32_t const used = (queue.tail + queue.place.entries - head) % queue.place.entries;
  return queue.place.entries - 1 - used;
}

// Completions from the first one on that are due. Those of one queue are due in their order.
std::size_t queue_set::count_due(completion_queue const& queue) {
  std::size_t count = 0;
  std::chrono::steady_clock::time_point now{};
  for (finished const& each : queue.ready) {
    auto const due = each.result.due;
    if (due > now) now = std::chrono::steady_clock::now();
    if (due > now) break;
    ++count;
  }
  return count;
}

bool queue_set::post(completion_queue& queue, bool all) {
  if (queue.ready.empty()) return false;
  std::size_t due = all ? queue.ready.size() : count_due(queue);
  std::size_t left = due;
  if (left == 0) return false;
  bool const io = queue.place.id != 0;
  if (io && !all) left = std::min(left, faults_.posts_now(queue.place.id, left));
  left = std::min<std::size_t>(left, left == 0 ? 0 : room(queue));
  bool const posts = left > 0;
  for (; left > 0; --left) {
    std::size_t const chosen = io ? faults_.next_posted(queue.place.id, due--) : std::size_t{0};
    auto const at = queue.ready.begin() + static_cast<std::ptrdiff_t>(chosen);
    post_one(queue, *at);
    queue.ready.erase(at);
    if (io) count(counters_.completions);
  }
  return posts;
}

void queue_set::post_one(completion_queue& queue, finished const& done) {
  submission_queue const* const sq = find_sq(done.sq);
  std::uint32_t const head = sq == nullptr ? 0 : sq->head;
  nvme::cqe const entry =
      nvme::make_cqe(done.result.specific, done.sq, static_cast<std::uint16_t>(head), done.cid,
                     done.result.word, queue.phase);
  auto* const to =
      reinterpret_cast<std::uint32_t*>(queue.place.memory + std::size_t{queue.tail} * sizeof entry);
  for (unsigned i = 0; i < 3; ++i)
    std::atomic_ref<std::uint32_t>{to[i]}.store(entry.dw[i], std::memory_order_relaxed);
  // Pairs with the driver's acquire: words 0 to 2, and the bytes of the command, are there.
  std::atomic_ref<std::uint32_t>{to[3]}.store(entry.dw[3], std::memory_order_release);
  if (++queue.tail == queue.place.entries) queue.tail = 0, queue.phase ^= 1;
}

}  // namespace gpufs::nvme_controller
