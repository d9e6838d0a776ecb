// What the daemon reads from memory that device code writes. A kernel's wild store may change any
// of it: requests and their tags, paths, headers of write buffers, posted words, marks, records.
// The daemon must read and write no memory but the region's, must end, and must answer all requests
// that came in order.
#include <gpufs/rpc/channel_places.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/serve/server.hpp>

#include <test/fuzz/daemon_world.hpp>

#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include <sys/resource.h>

using namespace gpufs;
using fuzz::require;
using fuzz::shared_memory;
using fuzz::word;

namespace {

constexpr unsigned most_actions = 100;
// The daemon itself waits for 10 s at most, for a device that adds bytes to a buffer.
constexpr std::chrono::seconds patience{30};

void make_files() {
  for (auto const& entry : std::filesystem::directory_iterator(fuzz::folder()))
    std::filesystem::remove_all(entry.path());
  fuzz::put_file("f0", "");
  fuzz::put_file("f1", std::string(5000, 'a'));
  fuzz::put_file("f2", std::string(70'000, 'b'));
}

class run {
 public:
  explicit run(fuzz::input in) : in_{in} {
    static shared_memory memory[2];
    auto const how = in_.take<std::uint8_t>();
    for (unsigned d = 0; d < ((how & 1) != 0 ? 2u : 1u); ++d)
      devices_.push_back(std::make_unique<fuzz::device>(memory[d], (how & 2) != 0 ? 2 : 1,
                                                        (how & 4) != 0, (how & 8) != 0));
    daemon::server_settings s;
    s.threads = (how & 16) != 0 ? 2 : 1;
    s.backend = (how & 96) == 96 ? io_backend::automatic : io_backend::pread;
    s.path = (how & 128) != 0 ? io_path::direct : io_path::automatic;
    s.queue_depth = 8;
    s.files.storage = std::make_shared<fuzz::fenced_storage>();
    std::vector<daemon::endpoint> endpoints;
    for (auto& d : devices_) endpoints.push_back(d->endpoint());
    server_.emplace(endpoints, s);
    server_->start();
    // Windows of f2 may be registered as long as nobody writes it.
    for (auto const* const name : {"f0", "f1", "f2"})
      for (int const flags : {name[1] == '2' ? O_RDONLY : O_RDWR, O_RDONLY})
        descriptors_.push_back(server_->files().open(name, flags));
    descriptors_.push_back(server_->files().open("f3", O_RDONLY));
  }

  void go() {
    for (unsigned n = 0; n < most_actions && !in_.empty(); ++n) act();
    await_answers();
    server_.reset();
  }

 private:
  void act() {
    auto& d = *devices_[in_.below(std::uint32_t(devices_.size()))];
    switch (in_.below(12)) {
      case 0:
      case 1: return post(d, false);
      case 2: return post(d, true);
      case 3: return store_slot(d);
      case 4: return store_staging(d);
      case 5: return store_header(d);
      case 6:
      case 7: return post_buffer(d);
      case 8: return store_word(d);
      case 9: return await_answers();
      case 10: return call_files();
      default: return call_server();
    }
  }

  // A number that is likely to be at a border.
  std::uint64_t value() {
    constexpr std::uint64_t some[] = {
        4095,       4096,       4097,       8192,       65536,      shared_memory::staging,
        0x7fffffff, 0x80000000, 0xffffffff, 1ull << 30, 1ull << 47, rpc::payload_mask};
    switch (in_.below(6)) {
      case 0: return in_.take<std::uint8_t>();
      case 1: return in_.take<std::uint16_t>();
      case 2: return in_.take<std::uint64_t>();
      case 3: return shared_memory::staging - in_.take<std::uint16_t>() % 8200;
      case 4: return (1ull << in_.below(64)) - in_.below(3);
      default: return some[in_.below(std::size(some))];
    }
  }

  std::int32_t descriptor() {
    auto const n = in_.take<std::uint8_t>();
    return n >= 250 ? std::int32_t(value()) : descriptors_[n % descriptors_.size()];
  }

  std::uint64_t version() {
    auto const fd = descriptor();
    if (fd < 0 || rpc::descriptor_index(fd) >= shared_memory::descriptors) return value();
    return word{devices_[0]->region.open_files[rpc::descriptor_index(fd)].version}.load();
  }

  // A request. A `wild` one comes on a channel of the upper half, or on none that there is. It does
  // not wait for that channel's last answer, and its own answer is not awaited.
  void post(fuzz::device& d, bool wild) {
    rpc::request q;
    q.op = rpc::operation(in_.below(12));
    auto const flags = in_.take<std::uint8_t>();
    q.flags = flags < 250 ? flags % 4 : flags;
    auto const channel = in_.take<std::uint8_t>();
    constexpr auto half = std::uint32_t(shared_memory::channels / 2);
    q.channel = wild && channel >= 200 ? std::uint32_t(value()) : channel % half;
    if (wild && q.channel < half) q.channel += half;
    q.file = descriptor();
    q.offset = value();
    q.length = value();
    q.staging = value();
    q.argument[0] = value();
    q.argument[1] = value();
    if (!wild) await_answer(d, q.channel);
    q.sequence = ++sequence_;
    if (!wild && !d.detached) d.pending[q.channel] = q.sequence;
    auto const ring = d.region.rings == 1 ? 0 : rpc::place_of_channel(q.channel, 2);
    await_room(d);
    auto const ticket = d.tickets[ring]++;
    auto& slot = d.region.ring[ring * shared_memory::slots + ticket % shared_memory::slots];
    for (unsigned i = 0; i < rpc::words_per_slot; ++i)
      word{slot.word[i]}.store(rpc::pack_word(q, i, rpc::lap_tag(ticket, shared_memory::slots)),
                               std::memory_order_release);
  }

  // Words of a slot, perhaps with its tag. Later requests may not be found behind it.
  void store_slot(fuzz::device& d) {
    d.in_order = false;
    auto const number = in_.below(std::uint32_t(d.region.rings * shared_memory::slots));
    auto const tag = in_.below(3);
    for (auto& w : d.region.ring[number].word) {
      auto const bits = value();
      word{w}.store(tag == 0 ? bits : rpc::lap_tag(0, 1) << 48 | (bits & rpc::payload_mask),
                    std::memory_order_release);
    }
  }

  void store_staging(fuzz::device& d) {
    auto at = value() % shared_memory::staging;
    for (char const c : in_.bytes(in_.take<std::uint8_t>())) {
      std::atomic_ref<std::byte>{d.region.staging[at]}.store(std::byte(c));
      at = (at + 1) % shared_memory::staging;
    }
  }

  void store_header(fuzz::device& d) {
    auto const buffer = in_.below(shared_memory::buffers);
    auto& h = d.region.writes.headers[buffer];
    word{h.version}.store(version());
    word{h.page}.store(value());
    auto const ranges = in_.below(70);
    std::atomic_ref{h.ranges}.store(ranges < 62 ? ranges : std::uint32_t(value()));
    for (std::uint32_t r = 0; r < std::min(ranges, rpc::most_ranges); ++r) {
      auto const begin = std::uint32_t(value());
      std::atomic_ref{h.range[r].begin}.store(begin);
      std::atomic_ref{h.range[r].end}.store(begin + std::uint32_t(value()));
    }
  }

  // The next posted word of a buffer, as device code stores it, and the mark.
  void post_buffer(fuzz::device& d) {
    auto const buffer = in_.below(shared_memory::buffers);
    auto const bits = in_.take<std::uint8_t>();
    auto const marks = reinterpret_cast<std::uint8_t*>(d.region.writes.marks);
    auto const tag = rpc::mark_of(word{d.region.writes.headers[buffer].version}.load());
    std::atomic_ref{marks[buffer]}.store((bits & 4) != 0 ? std::uint8_t(bits >> 3) : tag);
    auto const posted = word{d.region.writes.posted[buffer]};
    auto const next = (posted.load() >> rpc::posted_shift) + 1;
    if (next >> (64 - rpc::posted_shift) != 0) return;  // it does not go back, see store_word()
    posted.store(next << rpc::posted_shift | (bits & 3));
  }

  // Any word that device code can reach. Those that say how far a buffer is, do not go back while
  // the daemon waits for them: it would for 10 s.
  void store_word(fuzz::device& d) {
    auto const kind = in_.below(8);
    auto const n = in_.take<std::uint8_t>();
    auto const to = value();
    auto& record = d.region.open_files[n % shared_memory::descriptors];
    auto& completion = d.region.completions[n % shared_memory::channels];
    switch (kind) {
      case 0: return word{completion.given_up}.store(to);
      case 1: return word{completion.begun}.store(to);
      case 2: return word{d.region.control->epoch}.store(to);
      case 3: return word{record.version}.store(to);
      case 4: return word{*(&record.tag + n / 16 % 8)}.store(to);  // one of the words of the record
      case 5: return word{d.region.writes.errors[n % shared_memory::descriptors]}.store(to);
      default: break;
    }
    await_answers();
    server_->stop();
    auto* const words = kind == 6 ? d.region.writes.posted : d.region.writes.written;
    word{words[n % shared_memory::buffers]}.store(to);
    server_->start();
  }

  // The host's own calls.
  void call_files() {
    std::string const name = std::string("f") + char('0' + in_.below(5));
    constexpr int kinds[] = {O_RDONLY,
                             O_RDWR,
                             O_WRONLY,
                             O_RDWR | O_CREAT,
                             O_RDWR | O_APPEND,
                             O_RDWR | O_TRUNC,
                             O_WRONLY | int(rpc::open_write_once)};
    end_adding();
    auto& files = server_->files();
    rpc::file_status status;
    switch (in_.below(6)) {
      case 0:
      case 1:
        if (auto const fd = files.open(name, kinds[in_.below(std::size(kinds))], 0644); fd > 0)
          descriptors_[in_.below(std::uint32_t(descriptors_.size()))] = fd;
        return;
      case 2: files.close(descriptor()); return;
      case 3: static_cast<void>(files.stat(descriptor(), status)); return;
      case 4: static_cast<void>(files.name_of(version())); return;
      default:
        daemon::truncation t{in_.take<std::uint16_t>(), in_.take<std::uint8_t>()};
        files.truncate(descriptor(), t);
        return;
    }
  }

  void call_server() {
    end_adding();
    switch (in_.below(5)) {
      case 0: static_cast<void>(server_->writes().unwritten()); return;
      case 1: server_->writes().flush(nullptr); return;
      case 2: static_cast<void>(server_->statistics()); return;
      case 3:
        server_->stop();
        server_->start();
        return;
      default: {
        auto const number = in_.below(std::uint32_t(devices_.size()));
        server_->detach(number);
        devices_[number]->detached = true;
      }
    }
  }

  // As a kernel that ends: no buffer stays busy. Otherwise the daemon would wait for it.
  void end_adding() {
    for (auto& d : devices_)
      for (std::uint64_t i = 0; i < shared_memory::buffers; ++i)
        word{d->region.writes.posted[i]}.fetch_and(~rpc::posted_busy);
  }

  template <class Condition>
  void await(Condition const& condition, char const* promise) {
    auto const end = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      end_adding();
      require(std::chrono::steady_clock::now() < end, promise);
      std::this_thread::yield();
    }
  }

  void await_answer(fuzz::device& d, std::uint32_t channel) {
    auto const wanted = std::exchange(d.pending[channel], 0);
    if (wanted == 0 || !answers(d)) return;
    await(
        [&] {
          return rpc::completion_sequence(word{d.region.completions[channel].word}.load(
                     std::memory_order_acquire)) == wanted;
        },
        "a request that came in order is answered");
  }
  void await_answers() {
    end_adding();
    for (auto& d : devices_)
      for (std::uint32_t c = 0; c < shared_memory::channels; ++c) await_answer(*d, c);
  }
  static bool answers(fuzz::device const& d) { return d.in_order && !d.detached; }

  // As if there were a caller for each slot: no slot is overwritten before it was taken.
  void await_room(fuzz::device& d) {
    if (!answers(d)) return;
    auto const number = &d == devices_[0].get() ? 0 : 1;
    await(
        [&] {
          return d.tickets[0] + d.tickets[1] - server_->statistics(number).requests <
                 shared_memory::slots / 2;
        },
        "requests are taken");
  }

  fuzz::input in_;
  std::vector<std::unique_ptr<fuzz::device>> devices_;
  std::optional<daemon::server> server_;
  std::vector<std::int32_t> descriptors_;
  std::uint32_t sequence_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ::rlimit const most{1 << 20, 1 << 20};
  ::setrlimit(RLIMIT_FSIZE, &most);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  make_files();
  run{fuzz::input{data, size}}.go();
  return 0;
}
