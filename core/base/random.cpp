#include "core/base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/base/index.h"

namespace millrace {

uint64_t stream_id(std::string_view purpose, std::string_view name) {
  // FNV-1a over both parts with a separator, finished by SplitMix64 so that close names land far apart.
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xffu) * 0x100000001b3u;
  };
  mix(purpose);
  mix(name);
  hash += 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

std::array<uint32_t, 4> Philox::block(uint64_t counter) const {
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream_),
                               static_cast<uint32_t>(stream_ >> 32)};
  uint32_t k0 = static_cast<uint32_t>(seed_);
  uint32_t k1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * x[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1), static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

double Philox::normal(uint64_t element) const {
  const std::array<uint32_t, 4> words = block(element);
  const auto open_unit = [](uint32_t high, uint32_t low) {
    return (static_cast<double>(((uint64_t{high} << 32) | low) >> 11) + 0.5) * 0x1p-53;
  };
  const double radius = std::sqrt(-2.0 * std::log(open_unit(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * open_unit(words[2], words[3]));
}

uint64_t Philox::below(uint64_t element, uint64_t bound) const {
  const std::array<uint32_t, 4> words = block(element);
  const uint64_t value = (uint64_t{words[0]} << 32) | words[1];
  // 128-bit multiply-shift: the bias is below bound / 2^64, far under anything that could be seen.
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(value) * bound) >> 64);
}

std::vector<int64_t> shuffled_indices(int64_t count, uint64_t seed, uint64_t stream) {
  std::vector<int64_t> order(to_size(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const Philox draw(seed, stream);
  for (int64_t i = count - 1; i > 0; --i) {
    const uint64_t j = draw.below(static_cast<uint64_t>(i), static_cast<uint64_t>(i) + 1);
    std::swap(item(order, i), order[j]);
  }
  return order;
}

}  // namespace millrace
