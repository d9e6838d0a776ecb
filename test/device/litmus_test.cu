// Litmus tests of the orders that the code relies on, under a full load of pulls. They use the
// library's own functions. docs/memory-model.md says of each order whether PTX promises it.
//
// On a GPU the runs take GPUFS_LITMUS_SECONDS together, 5 by default. Variants without the order
// are run there, too. Their counts are printed and not checked.
#include <test/device/litmus_buffers.hpp>
#include <test/device/litmus_frames.hpp>
#include <test/device/litmus_host.hpp>
#include <test/device/litmus_words.hpp>

#include <doctest/doctest.h>

using namespace gpufs::test;

TEST_CASE("litmus peek: an element is of the page that its frame had before and after the load") {
  check_litmus<peek_cells<std::uint8_t>>("peek_8");
  check_litmus<peek_cells<std::uint16_t>>("peek_16");
  check_litmus<peek_cells<std::uint32_t>>("peek_32");
  check_litmus<peek_cells<std::uint64_t>>("peek_64");
  check_litmus<peek_cells<bits_128>>("peek_128");
  show_broken<peek_cells<std::uint32_t, broken::reader>>("peek_32", "no await_loads");
  show_broken<peek_cells<bits_128, broken::reader>>("peek_128", "no await_loads");
  show_broken<peek_cells<std::uint32_t, broken::writer>>("peek_32", "no settle");
}

TEST_CASE("litmus unpin: no store of the next owner reaches a load before unpin_read()") {
  check_litmus<unpin_cells<std::uint8_t>>("unpin_8");
  check_litmus<unpin_cells<std::uint64_t>>("unpin_64");
  show_broken<unpin_cells<std::uint64_t, broken::reader>>("unpin_64", "no await_loads");
}

TEST_CASE("litmus pull: pages that a warp pulls, settles and publishes are whole in other blocks") {
  check_litmus<pull_cells<>>("pull");
  show_broken<pull_cells<broken::writer>>("pull", "no settle");
  show_broken<pull_cells<broken::reader>>("pull", "loads by the L1");
}

TEST_CASE("litmus settle: a thread that sees the announcement sees the settled words") {
  check_litmus<settle_cells<>>("settle");
  show_broken<settle_cells<broken::writer>>("settle", "no settle");
}

TEST_CASE("litmus channel: the next holder finds the sequence and what the last one settled") {
  check_litmus<channel_cells<>>("channel");
  show_broken<channel_cells<broken::writer>>("channel", "no settle");
}

TEST_CASE("litmus record: a shared record that was taken is of one load") {
  check_litmus<record_cells<>>("record");
  show_broken<record_cells<broken::reader>>("record", "no await_loads");
  show_broken<record_cells<broken::writer>>("record", "no settle");
}

TEST_CASE("litmus version: who sees a version sees its size and the number of changes") {
  check_litmus<version_cells<>>("version");
  show_broken<version_cells<broken::writer>>("version", "relaxed");
}

TEST_CASE("litmus line: each caller gets a turn of its own, and all leave") {
  check_litmus<line_cells>("line");
}

TEST_CASE("litmus request: pulls are over before the next request lets the daemon overwrite them") {
  check_litmus<request_cells<>>("request");
  show_broken<request_cells<broken::reader>>("request", "no settle");
}

TEST_CASE("litmus buffer: the host reads no write buffer that the device is filling") {
  check_litmus<buffer_cells<>>("buffer");
  show_broken<buffer_cells<broken::writer>>("buffer", "relaxed");
}
