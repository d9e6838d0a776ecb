// vectorAdd without gpufs and without tiles: read, add, write.
#include <gpufs/device.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/analytics/vector_add/add_in_memory.hpp>
#include <apps/analytics/vector_add/vector_add.hpp>
#include <apps/common/managed_memory.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>
#include <functional>

namespace gpufs::apps::analytics {

namespace {

/// Where the sums are made, and how they get into the file.
class sums_memory {
 public:
  sums_memory(variant how, std::uint64_t bytes) : how_(how) {
    if (how == variant::zerocopy) {
      pinned_ = pinned_buffer<std::byte>(bytes);
    } else if (how == variant::managed) {
      managed_ = std::make_unique<managed_memory>(bytes);
    } else {
      device_ = buffer<std::byte>(bytes);
      if (how == variant::pipeline) pinned_ = pinned_buffer<std::byte>(bytes);
      if (how != variant::pipeline) pageable_ = std::make_unique<std::byte[]>(bytes);  // touched
    }
  }

  [[nodiscard]] std::byte* data() const {
    return managed_ ? managed_->data() : device_.size() != 0 ? device_.data() : pinned_.data();
  }

  void write(output_file const& to, std::uint64_t bytes) const {
    if (how_ == variant::zerocopy) return to.write_by_threads(pinned_.data(), bytes, 0);
    if (how_ == variant::managed) return to.write_by_threads(managed_->data(), bytes, 0);
    std::byte* const host = how_ == variant::pipeline ? pinned_.data() : pageable_.get();
    device_.copy_to_host(host, bytes);
    how_ == variant::pipeline ? to.write_by_threads(host, bytes, 0) : to.write(host, bytes, 0);
  }

 private:
  variant how_;
  buffer<std::byte> device_;
  pinned_buffer<std::byte> pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  std::unique_ptr<managed_memory> managed_;
};

class direct_add final : public vector_add {
 public:
  direct_add(variant how, vector_add_setup const& s)
      : how_(how),
        setup_(s),
        inputs_(make_direct_inputs(how, {s.a, s.b})),
        sums_(how, s.elements * sizeof(std::uint64_t)) {
    load_add_in_memory();
  }

  run_outcome run() override {
    run_outcome r;
    auto const start = std::chrono::steady_clock::now();
    if (how_ != variant::memory) inputs_->load();
    r.load_seconds = seconds_since(start);
    auto const input = [&](unsigned i) {
      return reinterpret_cast<std::uint64_t const*>(inputs_->bytes(i));
    };
    stream& on = this_thread_stream();
    add_in_memory(on, setup_.shape, input(0), input(1),
                  reinterpret_cast<std::uint64_t*>(sums_.data()), setup_.elements);
    on.synchronize();
    if (how_ == variant::memory) r.seconds = seconds_since(start);
    sums_.write(*setup_.c, setup_.elements * sizeof(std::uint64_t));
    setup_.c->make_durable();
    if (how_ != variant::memory) r.seconds = seconds_since(start);
    return r;
  }

 private:
  variant how_;
  vector_add_setup const& setup_;
  std::unique_ptr<direct_inputs> inputs_;
  sums_memory sums_;
};

}  // namespace

std::unique_ptr<vector_add> make_direct_add(variant how, vector_add_setup const& s) {
  return std::make_unique<direct_add>(how, s);
}

}  // namespace gpufs::apps::analytics
