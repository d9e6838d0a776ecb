// Pointers in data: the CPU builds a hash table of chained records, one kernel looks keys up,
// another one takes records from a free list and inserts them, and the CPU walks all chains.
#include <apps/common/generator.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <bit>

namespace gpufs::apps::workloads {

namespace {

struct record {
  std::uint64_t key;
  std::uint64_t value;
  record* next;  // an address of the device
};

constexpr std::uint64_t not_found = ~0ull;

/// Chains by the key's upper bits. Their number is a power of two.
struct table {
  record** heads;
  unsigned shift;
  [[nodiscard]] __host__ __device__ record*& head_of(std::uint64_t key) const {
    return heads[key >> shift];
  }
};

/// Different for different `i`.
__host__ __device__ inline std::uint64_t key_of(std::uint64_t seed, std::uint64_t i) {
  return generate(seed, i);
}

__global__ void look_up(table t, std::uint64_t const* keys, std::uint64_t* found, std::uint64_t n) {
  auto const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  std::uint64_t value = not_found;
  for (record const* r = t.head_of(keys[i]); r != nullptr; r = r->next) {
    if (r->key == keys[i]) value = r->value;
  }
  found[i] = value;
}

/// Inserts records first .. first + n - 1, out of the records that nobody has taken.
__global__ void insert(table t, record* spare, unsigned* taken, std::uint64_t seed,
                       std::uint64_t first, std::uint64_t n) {
  auto const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  record* const mine = spare + atomicAdd(taken, 1u);
  mine->key = key_of(seed, first + i);
  mine->value = first + i;
  // No thread walks a chain meanwhile.
  auto* const head = reinterpret_cast<unsigned long long*>(&t.head_of(mine->key));
  mine->next =
      reinterpret_cast<record*>(atomicExch(head, reinterpret_cast<unsigned long long>(mine)));
}

class lists final : public workload {
 public:
  explicit lists(setup const& of)
      : n_(of["n"]),
        more_(of["more"]),
        queries_(of["queries"]),
        seed_(of.seed),
        shift_(64 - static_cast<unsigned>(std::bit_width(std::bit_ceil(n_)) - 1)) {
    if (n_ < 2) shift_ = 63;
  }

  void allocate(session& s) override {
    heads_ = s.allocate<record*>(1ull << (64 - shift_));
    records_ = s.allocate<record>(n_);
    spare_ = s.allocate<record>(more_);
    taken_ = s.allocate<unsigned>(1);
    keys_ = s.allocate<std::uint64_t>(queries_);
    found_ = s.allocate<std::uint64_t>(queries_);
  }

  void run(session& s) override {
    build();
    s.send(heads_);
    s.send(records_);
    s.send(keys_);
    table const t{heads_.device(), shift_};
    s.launch({s.reads(heads_), s.reads(records_), s.reads(keys_), s.writes(found_)}, look_up,
             blocks(queries_), 128, t, keys_.device(), found_.device(), queries_);
    s.synchronize();
    s.launch({s.reads_writes(heads_), s.writes(spare_), s.reads_writes(taken_)}, insert,
             blocks(more_), 128, t, spare_.device(), taken_.device(), seed_, n_, more_);
    s.synchronize();
    s.fetch(found_);
    s.fetch(heads_);
    s.fetch(spare_);
    for (std::uint64_t j = 0; j < queries_; ++j) hits_ += found_.host()[j] != not_found ? 1 : 0;
    walk();
  }

  void reference() override {
    std::vector<record*> heads(1ull << (64 - shift_));
    std::vector<record> records(n_ + more_);
    table const t{heads.data(), shift_};
    for (std::uint64_t i = 0; i < n_ + more_; ++i) {
      auto const key = key_of(seed_, i);
      records[i] = {key, i, t.head_of(key)};
      t.head_of(key) = &records[i];
    }
    for (std::uint64_t j = 0; j < queries_; ++j) {
      auto const key = key_of(seed_, asked(j));
      for (record const* r = t.head_of(key); r != nullptr; r = r->next)
        hits_ += r->key == key && r->value < n_ ? 1 : 0;
    }
  }

  void check(session&, checks& c) override {
    std::uint64_t hits = 0, count = n_ + more_, sum = 0;
    for (std::uint64_t j = 0; j < queries_; ++j) {
      std::uint64_t const i = asked(j);
      std::uint64_t const wanted = i < n_ ? i : not_found;
      c.equal("the value of a key", found_.host()[j], wanted);
      hits += wanted != not_found ? 1 : 0;
    }
    for (std::uint64_t i = 0; i < count; ++i) sum += base::mix64(key_of(seed_, i) ^ i);
    c.equal("keys that were found", hits_, hits);
    c.equal("records in the chains", walked_, count);
    c.equal("sum over the records", sum_, sum);
    c.equal("records in wrong chains", strays_, 0);
  }

  std::vector<std::span<std::byte const>> results() override { return {found_.result()}; }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const built = heads_.bytes() + records_.bytes() + keys_.bytes();
    std::uint64_t const grown = heads_.bytes() + spare_.bytes();
    bool const is_declared = s.is_declared();
    if (s.how().protocol == coherence_protocol::batch) {
      std::uint64_t const all = built + spare_.bytes() + taken_.bytes() + found_.bytes();
      std::uint64_t const inserted = grown + taken_.bytes();
      c.equal("bytes_h2d", got.bytes_h2d,
              is_declared ? built + found_.bytes() + inserted : 2 * all);
      c.equal("bytes_d2h", got.bytes_d2h, is_declared ? found_.bytes() + inserted : 2 * all);
      return;
    }
    // Undeclared, a call may have written the records.
    c.equal("bytes_d2h", got.bytes_d2h,
            found_.bytes() + grown + (is_declared ? 0 : records_.bytes()));
    c.equal("bytes sent by reason", got.release_bytes + got.eviction_bytes, got.bytes_h2d);
    // Chains begin anywhere: blocks of a rolling object are sent again and again.
    if (s.how().protocol == coherence_protocol::lazy)
      c.equal("bytes_h2d", got.bytes_h2d, built);
    else
      c.expect(got.bytes_h2d >= built, "fewer bytes were sent than the CPU has written");
  }

 private:
  static unsigned blocks(std::uint64_t threads) { return unsigned((threads + 127) / 128); }

  /// The number of the record that query `j` asks for. About half of them are not there yet.
  [[nodiscard]] std::uint64_t asked(std::uint64_t j) const {
    return generate_below(seed_ + 1, j, 2 * n_);
  }

  void build() {
    table const t{heads_.host(), shift_};
    record* const records = records_.host();
    for (std::uint64_t i = 0; i < n_; ++i) {
      auto const key = key_of(seed_, i);
      records[i] = {key, i, t.head_of(key)};
      t.head_of(key) = records_.device() + i;
    }
    for (std::uint64_t j = 0; j < queries_; ++j) keys_.host()[j] = key_of(seed_, asked(j));
  }

  /// By hand the CPU has copies of records, and their pointers are the device's.
  [[nodiscard]] record const* on_host(record const* r) const {
    if (r >= records_.device() && r < records_.device() + n_)
      return records_.host() + (r - records_.device());
    return spare_.host() + (r - spare_.device());
  }

  void walk() {
    record* const* const heads = heads_.host();
    for (std::uint64_t b = 0; b < heads_.size(); ++b) {
      for (record const* at = heads[b]; at != nullptr;) {
        record const& r = *on_host(at);
        ++walked_;
        sum_ += base::mix64(r.key ^ r.value);
        strays_ += r.key >> shift_ != b ? 1 : 0;
        at = r.next;
      }
    }
  }

  std::uint64_t n_, more_, queries_, seed_;
  unsigned shift_;
  object<record*> heads_;
  object<record> records_, spare_;
  object<unsigned> taken_;
  object<std::uint64_t> keys_, found_;
  std::uint64_t hits_ = 0, walked_ = 0, sum_ = 0, strays_ = 0;
};

}  // namespace

description const workload_lists{
    .name = "lists",
    .what = "pointers in data: the CPU builds chains, kernels walk and grow them, the CPU walks",
    .parameters = {{"n", 700, 1 << 20, "records that the CPU inserts", 1, 1ull << 40},
                   {"more", 300, 1 << 18, "records that a kernel inserts", 1, 1ull << 31},
                   {"queries", 1000, 10'000'000, "keys that a kernel looks up", 1, 1ull << 37}},
    .make = make_workload<lists>,
};

}  // namespace gpufs::apps::workloads
