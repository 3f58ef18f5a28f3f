// Small rings for tests: ranks as threads, or as objects in one thread.
//
//   on_threads(3, [&](int64_t rank) { ... });             // rethrows what the first rank threw
//   fill(transport.begin_send(f), seed);  EXPECT_TRUE(holds(message.payload, seed));
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "transport/streams/transport.h"

namespace millrace::testing_support {

// What each rank threw, "" for nothing.
inline std::vector<std::string> outcomes_on_threads(int64_t ranks, const std::function<void(int64_t)>& run) {
  std::vector<std::string> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (const std::exception& exception) {
        outcomes[static_cast<size_t>(rank)] = exception.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline void fill(std::span<std::byte> bytes, uint64_t seed) {
  const Philox draw(seed, 1);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw.bits(i / 4) >> (8 * (i % 4)));
}
inline bool holds(std::span<const std::byte> bytes, uint64_t seed) {
  std::vector<std::byte> expected(bytes.size());
  fill(expected, seed);
  return std::equal(bytes.begin(), bytes.end(), expected.begin());
}

// One flow each way over every data link of a ring, forward flows first at 2 * link.
inline FlowTable both_ways(int64_t devices, size_t bytes, int64_t credits) {
  FlowTable table;
  table.devices = devices;
  for (int64_t link = 0; link + 1 < devices; ++link) {
    const std::string tensor = "layer" + std::to_string(link);
    table.flows.push_back(
        {.stream = Stream::kActivation, .tensor = tensor, .from = link, .to = link + 1, .most_bytes = bytes, .credits = credits});
    table.flows.push_back(
        {.stream = Stream::kError, .tensor = tensor, .from = link + 1, .to = link, .most_bytes = bytes, .credits = credits});
  }
  return table;
}

// What a call throws, "" for nothing.
inline std::string error_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : "wrong code: " + std::string(name_of(error.code())) + ": " + error.what();
  }
  return "";
}

}  // namespace millrace::testing_support
