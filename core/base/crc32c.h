// CRC32C (Castagnoli's polynomial, reflected: iSCSI, RFC 3720): finds damage on the way, no defence against forgery.
//
//   uint32_t sum = crc32c(header);
//   sum = crc32c(payload, sum);            // the same as of both in one piece
//
// From a kilobyte on by folding, products without carry of 256 or 512 bits, where the processor has them; with SSE4.2 alone its own
// instruction, three strands at a time; elsewhere tables. All with the same result. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

// `previous` is the checksum of what came before; 0 for nothing.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

// The one with tables, for tests and for processors without the instruction.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t previous = 0);

enum class Crc32cWay { kTables, kInstruction, kFolding256, kFolding512 };

// Those that this processor has; the last one is what crc32c takes.
std::span<const Crc32cWay> crc32c_ways();

// `way` is one of them.
uint32_t crc32c_by(Crc32cWay way, std::span<const std::byte> bytes, uint32_t previous = 0);

// Whether crc32c uses the processor's instructions.
bool crc32c_in_hardware();

}  // namespace millrace
