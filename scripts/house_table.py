"""The tables of scripts/check_house.py. To move a room, edit its line in ROOMS."""

# Rooms: (name, tower, level, files). A file belongs to the room with the longest pattern that
# matches; `*` also matches `/`. A file may include its own room and the rooms of its tower with a
# lower level. Rooms of one level do not include each other.
ROOMS = [
    # The device side and its owner on the host.
    ("owner", "device", 90, ["gpufs/owner/*"]),
    ("public API", "device", 80, ["include/gpufs/*", "include/gpufs/testing/filesystem.hpp"]),
    ("mapping", "device", 70, ["gpufs/mapping/*"]),
    ("io", "device", 60, ["gpufs/io/*"]),
    ("prefetcher", "device", 50, ["prefetcher/*"]),
    ("source", "device", 48, ["gpufs/source/*"]),
    ("file", "device", 46, ["gpufs/file/*"]),
    ("dirty", "device", 44, ["gpufs/dirty/*"]),
    ("cache", "device", 40, ["gpufs/cache/*"]),
    ("ring", "device", 34, ["gpufs/ring/*"]),
    ("nvme queues", "device", 32, ["gpufs/nvme/*"]),
    ("handle", "device", 30, ["gpufs/handle/*", "include/gpufs/fs_ref.hpp"]),
    ("rpc formats", "formats", 0, ["gpufs/rpc/*_format.hpp", "gpufs/rpc/channel_places.hpp"]),
    ("nvme driver formats", "formats", 10, ["gpufs/nvme/status.hpp", "gpufs/nvme/prp.hpp"]),
    ("nvme formats", "formats", 0, ["gpufs/nvme/format.hpp"]),
    ("base", "device", 20, ["gpufs/base/*"]),
    ("plain base", "plain", 0, [
        "gpufs/base/above_stderr.hpp", "gpufs/base/host_device.hpp", "gpufs/base/mix64.hpp"]),
    ("device", "device", 10, ["gpufs/device/*", "include/gpufs/device.hpp"]),
    # Settings, advice, statistics: plain types for everybody.
    ("values", "values", 0, [
        "include/gpufs/config.hpp", "include/gpufs/settings.hpp", "include/gpufs/advice.hpp",
        "include/gpufs/statistics.hpp", "include/gpufs/device_counters.hpp",
        "include/gpufs/file_statistics.hpp",
        "include/gpufs/host_times.hpp", "include/gpufs/version.hpp",
        "include/gpufs/file.hpp", "include/gpufs/nvme.hpp", "include/gpufs/testing/*",
        "include/gpufs/mapping_options.hpp", "include/gpufs/mapping_settings.hpp",
        "include/gpufs/mapping_statistics.hpp", "include/gpufs/shared_memory_error.hpp"]),
    # The host's daemon.
    ("serve", "host", 50, ["host-daemon/serve/*"]),
    ("bulk", "host", 45, ["host-daemon/bulk/*"]),
    ("device_work", "host", 42, ["host-daemon/device_work/*"]),
    ("engine", "host", 40, ["host-daemon/engine/*"]),
    ("files", "host", 30, ["host-daemon/files/*"]),
    ("write_back", "host", 20, ["host-daemon/write_back/*"]),
    ("backend", "host", 10, ["host-daemon/backend/*"]),
    ("daemon base", "host", 0, ["host-daemon/base/*"]),
    # NVMe controllers: their control plane, and the software controller. They share formats only,
    # and meet in one file.
    ("nvme software", "nvme host", 10, ["nvme-host/software.*"]),
    ("nvme-host", "nvme host", 0, ["nvme-host/*"]),
    ("nvme-controller", "nvme controller", 0, ["nvme-controller/*"]),
    # Users of the library.
    ("apps", "apps", 0, ["apps/*"]),
    ("examples", "apps", 1, ["examples/*"]),
    ("test", "test", 0, ["test/*"]),
    ("python", "apps", 0, ["python/*"]),
]

# What a tower or a room may include beside that: names of rooms, or "tower NAME" for all of one.
ALSO = {
    "tower device": ["values", "rpc formats", "plain base"],
    "nvme queues": ["nvme formats", "nvme driver formats"],
    "owner": ["tower host", "tower nvme host", "nvme-controller"],
    "tower formats": ["plain base"],
    "tower values": ["rpc formats"],
    "tower host": ["values", "rpc formats", "plain base"],
    "tower nvme host": ["nvme formats", "nvme driver formats", "daemon base"],
    "nvme software": ["nvme-controller"],
    "nvme-controller": ["nvme formats", "daemon base"],
    "tower apps": ["values", "public API", "handle header", "device header", "json header"],
    "tower test": ["*"],
}

# Headers that have a name of their own in ALSO, beside their room.
HEADERS = {
    "device header": ["include/gpufs/device.hpp"],
    "handle header": ["include/gpufs/fs_ref.hpp"],
    "json header": ["host-daemon/base/json_string.hpp"],
}

# Arrows that may go up: (file, header, reason). `*` matches anything.
EXCEPTIONS = [
    ("gpufs/io/*", "include/gpufs/io.hpp", "bodies of the templates that it declares"),
    ("gpufs/io/*", "include/gpufs/async.hpp", "bodies of the templates that it declares"),
    ("gpufs/io/element/*", "include/gpufs/array.hpp", "bodies of its templates"),
    ("gpufs/io/element/*", "include/gpufs/held_ptr.hpp", "bodies of its templates"),
    ("gpufs/io/element/*", "include/gpufs/held_writer.hpp", "bodies of its templates"),
    ("apps/*", "gpufs/base/warp.hpp", "kernels of the applications that work by warps"),
    ("apps/common/generator.hpp", "gpufs/base/mix64.hpp", "the same hash on both sides"),
    ("apps/baseline/*", "gpufs/base/host_device.hpp", "code for both sides, as in the library"),
    ("apps/bench/kernels.cu", "gpufs/io/open.hpp", "bench rpc sends empty requests"),
    ("apps/gpufs/nvme_*", "nvme-host/*", "gpufs nvme drives a controller without files"),
    ("apps/gpufs/nvme_*", "nvme-controller/*", "gpufs nvme drives a controller without files"),
    ("apps/gpufs/nvme_*", "gpufs/nvme/*", "gpufs nvme drives a controller without files"),
    ("apps/gpufs/nvme_*", "gpufs/base/mix64.hpp", "the same hash on both sides"),
    ("apps/gpufs/nvme_selftest.cu", "gpufs/base/settled.hpp", "what a kernel fills comes first"),
    ("apps/common/nvme_queues.*", "nvme-host/*", "queue pairs of gpufs nvme and of bench nvme"),
    ("apps/common/nvme_queues.*", "gpufs/nvme/*", "queue pairs of gpufs nvme and of bench nvme"),
    ("apps/bench/nvme_*", "nvme-host/*", "bench nvme drives controllers without files"),
    ("apps/bench/nvme_*", "nvme-controller/*", "bench nvme drives controllers without files"),
    ("apps/bench/nvme_*", "gpufs/nvme/*", "bench nvme drives controllers without files"),
    ("apps/bench/nvme_*", "gpufs/base/mix64.hpp", "the same hash on both sides"),
    ("apps/gpufs/main.cpp", "gpufs/owner/settings_file.hpp", "info tells which keys a file has"),
    ("apps/gpufs/machine.cpp", "gpufs/device/file_window.hpp", "info tells what a device can do"),
]

# Namespaces: (files, allowed). The first pattern that matches holds. Parts named `detail` and
# namespaces without a name are allowed in each. "" is the global namespace. Forward declarations of
# types are free. Files that no pattern matches are not checked.
NAMESPACES = [
    ("gpufs/device/emulated/*", ["gpufs", "gpufs::device", "gpufs::device_memory",
                                 "gpufs::emulated", "cooperative_groups", ""]),
    ("gpufs/device/cuda/*", ["gpufs", "gpufs::device", "gpufs::device_memory",
                             "gpufs::cuda_device", ""]),
    ("gpufs/device/*", ["gpufs", "gpufs::device", "gpufs::device_memory"]),
    ("gpufs/owner/c_api.cpp", ["gpufs::owner", ""]),  # the type that gpufs.h names
    ("gpufs/owner/cli.cpp", ["gpufs", "gpufs::owner", "CLI"]),  # CLI11 prints our types
    ("gpufs/owner/shared_*", ["gpufs", "gpufs::owner", "gpufs::shared"]),  # what it declares
    ("gpufs/owner/*", ["gpufs", "gpufs::owner"]),
    ("gpufs/io/*", ["gpufs::io", "gpufs"]),
    ("gpufs/mapping/*", ["gpufs::shared"]),  # gpufs::mapping is a class
    ("gpufs/nvme/format.hpp", ["gpufs::nvme", "gpufs::nvme::status", "gpufs::nvme::reg",
                               "gpufs::nvme::identify"]),  # constants by what they are of
    ("gpufs/@/*", ["gpufs::@"]),  # @ is the folder's name
    ("prefetcher/*", ["gpufs::prefetch"]),
    ("host-daemon/*", ["gpufs::daemon"]),
    ("nvme-host/*", ["gpufs::nvme_host"]),
    ("nvme-controller/*", ["gpufs::nvme_controller"]),
    ("include/gpufs/io.hpp", ["gpufs", "gpufs::io"]),  # what its handles are made of
    ("include/gpufs/testing/*", ["gpufs", "gpufs::testing", "gpufs::daemon"]),
    ("include/gpufs/mapping.hpp", ["gpufs", "gpufs::shared"]),  # its forward declarations
    ("include/gpufs/nvme.hpp", ["gpufs::nvme"]),
    ("include/gpufs/*", ["gpufs"]),
]

PUBLIC_HEADERS = [
    "include/gpufs/advice.hpp",
    "include/gpufs/array.hpp",
    "include/gpufs/async.hpp",
    "include/gpufs/cli.hpp",
    "include/gpufs/compat/adsm.h",
    "include/gpufs/compat/dragon.h",
    "include/gpufs/compat/gmac.h",
    "include/gpufs/config.hpp",
    "include/gpufs/device.hpp",
    "include/gpufs/device_counters.hpp",
    "include/gpufs/file.hpp",
    "include/gpufs/file_statistics.hpp",
    "include/gpufs/filesystem.hpp",
    "include/gpufs/fs_ref.hpp",
    "include/gpufs/gpufs.h",
    "include/gpufs/gpufs.hpp",
    "include/gpufs/held_ptr.hpp",
    "include/gpufs/held_writer.hpp",
    "include/gpufs/host_times.hpp",
    "include/gpufs/io.hpp",
    "include/gpufs/mapping.hpp",
    "include/gpufs/mapping_cli.hpp",
    "include/gpufs/mapping_options.hpp",
    "include/gpufs/mapping_settings.hpp",
    "include/gpufs/mapping_statistics.hpp",
    "include/gpufs/mapping_windows.hpp",
    "include/gpufs/nvme.hpp",
    "include/gpufs/settings.hpp",
    "include/gpufs/shared_call.hpp",
    "include/gpufs/shared_memory_error.hpp",
    "include/gpufs/statistics.hpp",
    "include/gpufs/testing/faults.hpp",
    "include/gpufs/testing/filesystem.hpp",
    "include/gpufs/version.hpp",
]

# Headers whose functions that return an error code must say what they return.
CONTRACT_HEADERS = PUBLIC_HEADERS

LIBRARY = ["include/*", "gpufs/*", "prefetcher/*", "host-daemon/*", "nvme-host/*",
           "nvme-controller/*"]
COLUMNS = 100
FILE_LINES = 300
FUNCTION_LINES = 60
PARAGRAPH_LINES = 3
MEDIAN_WORDS = 25  # of the sentences in the comments of include/
