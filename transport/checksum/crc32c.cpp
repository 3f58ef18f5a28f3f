#include "transport/checksum/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millrace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, reflected

// kByteTables[k][b]: the register after byte b and k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> kByteTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t value = b;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = value;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 255];
  return tables;
}();

uint64_t word_at(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint32_t add_byte(uint32_t value, std::byte byte) { return (value >> 8) ^ kByteTables[0][(value ^ std::to_integer<uint32_t>(byte)) & 255]; }

#if defined(__x86_64__)

// The instruction takes three cycles and starts every cycle, so three strands of this many bytes go side by side.
constexpr size_t kStrand = 1024;

// kAcrossStrand[k][b]: what byte k of the register has become once kStrand zero bytes have followed. The register is linear
// in its bits, so the sum over its four bytes carries a whole register across a strand.
constexpr std::array<std::array<uint32_t, 256>, 4> kAcrossStrand = [] {
  std::array<uint32_t, 32> of_bit{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t value = uint32_t{1} << bit;
    for (size_t i = 0; i < kStrand; ++i) value = (value >> 8) ^ kByteTables[0][value & 255];
    of_bit[bit] = value;
  }
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (size_t k = 0; k < 4; ++k)
    for (size_t b = 0; b < 256; ++b)
      for (size_t bit = 0; bit < 8; ++bit)
        if (((b >> bit) & 1) != 0) tables[k][b] ^= of_bit[8 * k + bit];
  return tables;
}();

uint32_t across_strand(uint32_t value) {
  return kAcrossStrand[0][value & 255] ^ kAcrossStrand[1][(value >> 8) & 255] ^ kAcrossStrand[2][(value >> 16) & 255] ^
         kAcrossStrand[3][value >> 24];
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(const std::byte* at, size_t size, uint32_t start) {
  uint64_t value = start;
  for (; size >= 3 * kStrand; at += 3 * kStrand, size -= 3 * kStrand) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kStrand; i += 8) {
      value = _mm_crc32_u64(value, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kStrand + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kStrand + i));
    }
    const uint32_t two = across_strand(static_cast<uint32_t>(value)) ^ static_cast<uint32_t>(second);
    value = across_strand(two) ^ static_cast<uint32_t>(third);
  }
  for (; size >= 8; at += 8, size -= 8) value = _mm_crc32_u64(value, word_at(at));
  auto last = static_cast<uint32_t>(value);
  for (; size > 0; ++at, --size) last = _mm_crc32_u8(last, std::to_integer<uint8_t>(*at));
  return last;
}

const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;

#endif

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t previous) {
  const std::byte* at = bytes.data();
  size_t size = bytes.size();
  uint32_t value = ~previous;
  for (; size >= 8; at += 8, size -= 8) {
    const uint64_t word = word_at(at) ^ value;
    value = 0;
    for (size_t k = 0; k < 8; ++k) value ^= kByteTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; size > 0; ++at, --size) value = add_byte(value, *at);
  return ~value;
}

bool crc32c_in_hardware() {
#if defined(__x86_64__)
  return kHasInstruction;
#else
  return false;
#endif
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  if (kHasInstruction) return ~by_instruction(bytes.data(), bytes.size(), ~previous);
#endif
  return crc32c_by_table(bytes, previous);
}

}  // namespace millrace
