#include "core/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
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

// Folding: a block of 128 bits that lies `bits` before another, as two products of 64 bits with x^(bits + 32) and x^(bits - 32) modulo
// the polynomial, may be added to that other one without changing the remainder of the whole. All is reflected, as the instruction has it.
constexpr uint64_t power_of_x(size_t exponent) {
  uint32_t value = 0x80000000;  // 1, reflected
  for (size_t i = 0; i < exponent; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  return uint64_t{value} << 1;
}
struct Fold {
  uint64_t low;  // for the bits that come first
  uint64_t high;
};
constexpr Fold fold_of(size_t bytes) { return {power_of_x(8 * bytes + 32), power_of_x(8 * bytes - 32)}; }

// From here on folding is worth its beginning and its end.
constexpr size_t kFoldedFrom = 1024;

// So many blocks at a time are under way, so that none waits for the product before.
constexpr size_t kUnderWay = 8;

#define MILLRACE_FOLDING_256 __attribute__((target("sse4.2,avx2,pclmul,vpclmulqdq")))
#define MILLRACE_FOLDING_512 __attribute__((target("sse4.2,avx2,avx512f,avx512vl,pclmul,vpclmulqdq")))

// The remainder of what a block of 16 bytes stands for.
__attribute__((target("sse4.2"))) uint32_t of_block(__m128i block) {
  const uint64_t low = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(block)));
  return static_cast<uint32_t>(_mm_crc32_u64(low, static_cast<uint64_t>(_mm_extract_epi64(block, 1))));
}

MILLRACE_FOLDING_256 inline __m128i folded(__m128i block, __m128i next, Fold by) {
  const __m128i factor = _mm_set_epi64x(static_cast<int64_t>(by.high), static_cast<int64_t>(by.low));
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(block, factor, 0x00), _mm_clmulepi64_si128(block, factor, 0x11)), next);
}
MILLRACE_FOLDING_256 inline __m256i folded(__m256i block, __m256i next, __m256i factor) {
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(block, factor, 0x00), _mm256_clmulepi64_epi128(block, factor, 0x11)),
                          next);
}
MILLRACE_FOLDING_512 inline __m512i folded(__m512i block, __m512i next, __m512i factor) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(block, factor, 0x00), _mm512_clmulepi64_epi128(block, factor, 0x11), next,
                                   0x96);  // the sum of the three
}
MILLRACE_FOLDING_256 inline __m256i load_256(const std::byte* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
MILLRACE_FOLDING_512 inline __m512i load_512(const std::byte* from) { return _mm512_loadu_si512(from); }
MILLRACE_FOLDING_256 inline __m256i factor_256(Fold by) {
  return _mm256_broadcastsi128_si256(_mm_set_epi64x(static_cast<int64_t>(by.high), static_cast<int64_t>(by.low)));
}
MILLRACE_FOLDING_512 inline __m512i factor_512(Fold by) {
  const auto low = static_cast<int64_t>(by.low), high = static_cast<int64_t>(by.high);
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

// At least kUnderWay blocks.
MILLRACE_FOLDING_256 uint32_t by_folding_256(const std::byte* at, size_t size, uint32_t start) {
  constexpr size_t kBlock = 32;
  constexpr size_t kRound = kUnderWay * kBlock;
  __m256i blocks[kUnderWay];
  for (size_t i = 0; i < kUnderWay; ++i) blocks[i] = load_256(at + i * kBlock);
  blocks[0] = _mm256_xor_si256(blocks[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(start))));
  at += kRound;
  size -= kRound;
  const __m256i across_round = factor_256(fold_of(kRound));
  for (; size >= kRound; at += kRound, size -= kRound)
#pragma GCC unroll 8
    for (size_t i = 0; i < kUnderWay; ++i) blocks[i] = folded(blocks[i], load_256(at + i * kBlock), across_round);
  const __m256i across_block = factor_256(fold_of(kBlock));
  for (size_t i = 1; i < kUnderWay; ++i) blocks[i] = folded(blocks[i - 1], blocks[i], across_block);
  __m256i last = blocks[kUnderWay - 1];
  for (; size >= kBlock; at += kBlock, size -= kBlock) last = folded(last, load_256(at), across_block);
  constexpr Fold kAcross16 = fold_of(16);
  return by_instruction(at, size, of_block(folded(_mm256_castsi256_si128(last), _mm256_extracti128_si256(last, 1), kAcross16)));
}

// The same, with blocks of 64 bytes.
MILLRACE_FOLDING_512 uint32_t by_folding_512(const std::byte* at, size_t size, uint32_t start) {
  constexpr size_t kBlock = 64;
  constexpr size_t kRound = kUnderWay * kBlock;
  __m512i blocks[kUnderWay];
  for (size_t i = 0; i < kUnderWay; ++i) blocks[i] = load_512(at + i * kBlock);
  blocks[0] = _mm512_xor_si512(blocks[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(start))));
  at += kRound;
  size -= kRound;
  const __m512i across_round = factor_512(fold_of(kRound));
  for (; size >= kRound; at += kRound, size -= kRound)
#pragma GCC unroll 8
    for (size_t i = 0; i < kUnderWay; ++i) blocks[i] = folded(blocks[i], load_512(at + i * kBlock), across_round);
  const __m512i across_block = factor_512(fold_of(kBlock));
  for (size_t i = 1; i < kUnderWay; ++i) blocks[i] = folded(blocks[i - 1], blocks[i], across_block);
  __m512i last = blocks[kUnderWay - 1];
  for (; size >= kBlock; at += kBlock, size -= kBlock) last = folded(last, load_512(at), across_block);
  constexpr Fold kAcross16 = fold_of(16);
  alignas(64) __m128i parts[4];
  _mm512_store_si512(parts, last);
  __m128i rest = parts[0];
  for (size_t i = 1; i < 4; ++i) rest = folded(rest, parts[i], kAcross16);
  return by_instruction(at, size, of_block(rest));
}

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

std::span<const Crc32cWay> crc32c_ways() {
  static const std::vector<Crc32cWay> ways = [] {
    std::vector<Crc32cWay> found{Crc32cWay::kTables};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2") == 0) return found;
    found.push_back(Crc32cWay::kInstruction);
    if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("vpclmulqdq") == 0) return found;
    found.push_back(Crc32cWay::kFolding256);
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0) found.push_back(Crc32cWay::kFolding512);
#endif
    return found;
  }();
  return ways;
}

bool crc32c_in_hardware() { return crc32c_ways().size() > 1; }

uint32_t crc32c_by(Crc32cWay way, std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  const bool folds = bytes.size() >= kFoldedFrom;
  if (folds && way == Crc32cWay::kFolding512) return ~by_folding_512(bytes.data(), bytes.size(), ~previous);
  if (folds && way == Crc32cWay::kFolding256) return ~by_folding_256(bytes.data(), bytes.size(), ~previous);
  if (way != Crc32cWay::kTables) return ~by_instruction(bytes.data(), bytes.size(), ~previous);
#endif
  static_cast<void>(way);
  return crc32c_by_table(bytes, previous);
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) {
  static const Crc32cWay best = crc32c_ways().back();
  return crc32c_by(best, bytes, previous);
}

}  // namespace millrace
