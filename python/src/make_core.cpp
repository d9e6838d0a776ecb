#include <gpufs/settings.hpp>

#include <python/src/gil.hpp>
#include <python/src/make_core.hpp>

#include <string>
#include <string_view>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

using named_values = std::vector<std::pair<std::string, std::string>>;

/// Zero bytes as \0: the text of an exception would end at one.
std::string shown(std::string_view text) {
  std::string all;
  for (char const c : text) all += c == '\0' ? std::string("\\0") : std::string(1, c);
  return all;
}

/// Throws config_error as basic_setting::assign, and for a value that has a zero byte.
void set(config& c, std::string const& key, std::string const& value) {
  std::string const origin = shown(key), text = shown(value);
  find_setting(origin, origin).assign(c, text, origin);
  if (text.size() != value.size())
    throw config_error(origin + "=" + text + ": must be text without zero bytes");
}

config config_of(named_values const& values, bool overrides) {
  config c;
  for (auto const& [key, value] : values) set(c, key, value);
  return overrides ? load_config(c) : c;
}

}  // namespace

std::shared_ptr<core> make_core(std::vector<std::pair<nb::bytes, nb::bytes>> const& given,
                                bool overrides, std::optional<int> device) {
  named_values values;
  for (auto const& [key, value] : given)
    values.emplace_back(std::string(key.c_str(), key.size()),
                        std::string(value.c_str(), value.size()));
  without_gil const release;
  return std::make_shared<core>(config_of(values, overrides), device);
}

}  // namespace gpufs::python
