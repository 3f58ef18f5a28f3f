// The reference device: every operation as plain loops over canonical [sample][channel][row][column] data. Slow and
// obvious, in fp64 or fp32; the oracle that every other device is tested against.
//
//   std::unique_ptr<Device> oracle = make_reference_device(ElementType::kFloat64);
//   auto kernel = oracle->make_kernel(spec);
//
// Sums start at zero and have one fixed order: input channel, kernel row, kernel column for an output; output channel,
// row, column for an input's error; sample, row, column for a parameter's gradient. Results that accumulate over calls
// are added whole.
// A frozen batch norm uses its running statistics in training too: nothing would ever commit others.
// Everything runs at once on the calling thread; nothing is asynchronous.
// Limits: element types other than fp64 and fp32, recurrent layers, embeddings and the CTC loss are kUnavailable.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace millrace {

std::unique_ptr<Device> make_reference_device(ElementType type);

}  // namespace millrace
