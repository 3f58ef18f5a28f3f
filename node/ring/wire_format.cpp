#include "node/ring/wire_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

uint16_t to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const uint32_t largest = (bits & 0x80000000) | 0x7f7f0000;
  return static_cast<uint16_t>(((rounded & 0x7fffffff) >= 0x7f800000 ? largest : rounded) >> 16);
}
float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

using Half = _Float16;
constexpr float kLargestHalf = 65504.0f;
uint16_t to_half(float value) { return std::bit_cast<uint16_t>(static_cast<Half>(std::clamp(value, -kLargestHalf, kLargestHalf))); }
float from_half(uint16_t bits) { return static_cast<float>(std::bit_cast<Half>(bits)); }

template <typename To, typename From>
To saturated(From value) {
  if constexpr (sizeof(To) < sizeof(From)) {
    constexpr From kMost = static_cast<From>(std::numeric_limits<To>::max());
    if (value > kMost) return std::numeric_limits<To>::max();
    if (value < -kMost) return -std::numeric_limits<To>::max();
  }
  return static_cast<To>(value);
}

void check_size(ElementType type, size_t payload, size_t numbers) {
  MILLRACE_CHECK(payload == wire_bytes(type, static_cast<int64_t>(numbers)), "{} bytes for {} numbers of {}", payload, numbers,
                 name_of(type));
}

template <typename Stored, typename Number>
void pack_as(std::span<const Number> numbers, std::span<std::byte> payload) {
  if constexpr (std::is_same_v<Stored, Number>) {
    std::memcpy(payload.data(), numbers.data(), numbers.size_bytes());
  } else {
    auto* const stored = reinterpret_cast<Stored*>(payload.data());
    for (size_t i = 0; i < numbers.size(); ++i) stored[i] = saturated<Stored>(numbers[i]);
  }
}
template <typename Stored, typename Number>
void unpack_as(std::span<const std::byte> payload, std::span<Number> numbers) {
  if constexpr (std::is_same_v<Stored, Number>) {
    std::memcpy(numbers.data(), payload.data(), payload.size());
  } else {
    const auto* const stored = reinterpret_cast<const Stored*>(payload.data());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = saturated<Number>(stored[i]);
  }
}

template <typename Number>
void pack_any(ElementType type, std::span<const Number> numbers, std::span<std::byte> payload) {
  check_size(type, payload.size(), numbers.size());
  auto* const halves = reinterpret_cast<uint16_t*>(payload.data());
  switch (type) {
    case ElementType::kFloat64: return pack_as<double>(numbers, payload);
    case ElementType::kFloat32: return pack_as<float>(numbers, payload);
    case ElementType::kFloat16:
      for (size_t i = 0; i < numbers.size(); ++i) halves[i] = to_half(saturated<float>(numbers[i]));
      return;
    case ElementType::kBfloat16:
      for (size_t i = 0; i < numbers.size(); ++i) halves[i] = to_bfloat16(saturated<float>(numbers[i]));
      return;
    case ElementType::kFixed16: break;
  }
  MILLRACE_CHECK(false, "numbers do not travel as {}", name_of(type));
}
template <typename Number>
void unpack_any(ElementType type, std::span<const std::byte> payload, std::span<Number> numbers) {
  check_size(type, payload.size(), numbers.size());
  const auto* const halves = reinterpret_cast<const uint16_t*>(payload.data());
  switch (type) {
    case ElementType::kFloat64: return unpack_as<double>(payload, numbers);
    case ElementType::kFloat32: return unpack_as<float>(payload, numbers);
    case ElementType::kFloat16:
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<Number>(from_half(halves[i]));
      return;
    case ElementType::kBfloat16:
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<Number>(from_bfloat16(halves[i]));
      return;
    case ElementType::kFixed16: break;
  }
  MILLRACE_CHECK(false, "numbers do not travel as {}", name_of(type));
}

}  // namespace

size_t wire_bytes(ElementType type, int64_t elements) { return to_size((bits_of(type) + 7) / 8 * elements); }

void pack(ElementType type, ConstHostNumbers numbers, std::span<std::byte> payload) {
  numbers.visit([&](auto values) { pack_any(type, values, payload); });
}
void unpack(ElementType type, std::span<const std::byte> payload, HostNumbers numbers) {
  numbers.visit([&](auto values) { unpack_any(type, payload, values); });
}

}  // namespace millrace
