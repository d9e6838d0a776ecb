#include <nanobind/ndarray.h>
#include <python/src/gil.hpp>
#include <python/src/mapped.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include <unistd.h>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

[[noreturn]] void throw_buffer_error(char const* what) {
  PyErr_SetString(PyExc_BufferError, what);
  throw nb::python_error();
}

}  // namespace

mapped::mapped(mapping object, std::string name, bool only_read, int device)
    : object_(std::move(object)),
      name_(std::move(name)),
      only_read_(only_read),
      device_(device),
      process_(::getpid()) {}

namespace {

// Guarded by the GIL. Owners let go of mappings with the GIL, so none ends while this is gone
// through. It is never destroyed.
struct noted_mapping {
  std::uintptr_t first;
  std::uint64_t bytes;
  std::weak_ptr<mapped> object;
};
std::vector<noted_mapping>& noted() {
  static auto& all = *new std::vector<noted_mapping>;
  return all;
}

}  // namespace

void mapped::note(std::shared_ptr<mapped> const& m) {
  std::erase_if(noted(), [](auto const& other) { return other.object.expired(); });
  noted().push_back({reinterpret_cast<std::uintptr_t>(m->object_.data()), m->object_.size(), m});
}

std::shared_ptr<mapped> mapped::at(void const* address) {
  auto const wanted = reinterpret_cast<std::uintptr_t>(address);
  for (auto const& each : noted()) {
    if (wanted - each.first >= each.bytes) continue;  // most are not it
    auto m = each.object.lock();
    if (m != nullptr && !m->closed_ && m->process_ == ::getpid()) return m;
  }
  return nullptr;
}

mapped::~mapped() {
  std::optional<without_gil> release;
  if (PyGILState_Check() != 0) release.emplace();
  if (process_ != ::getpid()) {  // the object is the parent's
    static_cast<void>(new mapping(std::move(object_)));
    return;
  }
  object_ = {};
}

mapping& mapped::object() {
  if (process_ != ::getpid())
    throw_os_error(EPERM, "the mapping belongs to process " + std::to_string(process_) +
                              ": start processes by spawn, not by fork()");
  if (closed_) throw nb::value_error("the mapping is closed");
  return object_;
}

mapped::counted_use::counted_use(mapped& of) : of_(of) {
  static_cast<void>(of.object());
  std::lock_guard const lock(of.mutex_);
  ++of.running_;
}

mapped::counted_use::~counted_use() {
  std::lock_guard const lock(of_.mutex_);
  if (--of_.running_ == 0) of_.ended_.notify_all();
}

void mapped::close() {
  if (process_ != ::getpid()) return;
  bool const is_first = !closed_;
  if (is_first && is_declared_here())
    throw_buffer_error("cannot close: gpufs.using() of this thread still uses the mapping");
  if (is_first && seen_.load(std::memory_order_relaxed) != 0)
    throw_buffer_error("cannot close: tensors that see the memory of the mapping exist");
  closed_ = true;  // so no call begins any more
  int error = 0;
  {
    without_gil const release;
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return is_first ? running_ == 0 : unmapped_; });
    if (is_first) {
      lock.unlock();
      error = object_.unmap();
      lock.lock();
      unmapped_ = true;
      ended_.notify_all();
    }
  }
  if (error != 0) throw_os_error(error, std::strerror(-error), name_);
}

nb::object mapped::bytes(std::shared_ptr<mapped> const& self, bool on_device) {
  mapping& m = object();
  seen_.fetch_add(1, std::memory_order_relaxed);
  nb::capsule const owner(new std::shared_ptr<mapped>(self), [](void* p) noexcept {
    std::unique_ptr<std::shared_ptr<mapped>> const held(static_cast<std::shared_ptr<mapped>*>(p));
    (*held)->seen_.fetch_sub(1, std::memory_order_relaxed);
  });
  std::size_t const size = m.size();
  if (on_device)
    return nb::cast(nb::ndarray<nb::array_api, std::uint8_t>(
        m.data(), {size}, owner, {}, nb::dtype<std::uint8_t>(), nb::device::cuda::value, device_));
  if (only_read_)
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t const>(m.data(), {size}, owner));
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(m.data(), {size}, owner));
}

void mapped::declare(std::thread::id by) { declared_.push_back(by); }

void mapped::undeclare(std::thread::id by) {
  auto const found = std::ranges::find(declared_, by);
  if (found != declared_.end()) declared_.erase(found);
}

bool mapped::is_declared_here() const {
  return std::ranges::find(declared_, std::this_thread::get_id()) != declared_.end();
}

void mapped::refuse_in_declaration() const {
  if (is_declared_here())
    throw_os_error(EBUSY, std::string(std::strerror(EBUSY)) +
                              ": gpufs.using() of this thread still uses the mapping");
}

}  // namespace gpufs::python
