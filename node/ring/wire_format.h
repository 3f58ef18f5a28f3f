// Between numbers as a device has them and bytes as they travel: the wire type of a flow. Internal to node/ring.
//
//   pack(ElementType::kBfloat16, numbers, payload);       // rounds to nearest, ties to even
//   unpack(ElementType::kBfloat16, payload, numbers);
//
// What a wire type cannot hold saturates: beyond its largest number becomes that number, with its sign; NaN stays NaN.
// Limits: kFixed16 has no scale of its own; plans with it travel in fp32 (core: said by run_plan).
#pragma once

#include <cstddef>
#include <span>

#include "core/device/host_numbers.h"

namespace millrace {

size_t wire_bytes(ElementType type, int64_t elements);

// Sizes must fit. Payloads are aligned for any element.
void pack(ElementType type, ConstHostNumbers numbers, std::span<std::byte> payload);
void unpack(ElementType type, std::span<const std::byte> payload, HostNumbers numbers);

}  // namespace millrace
