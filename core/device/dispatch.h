// Which kernel of a device does a specification: the one place that decides it, for every device with kernels of its own.
//
//   return dispatch(spec, [&] { return make_finish(engine, spec); },
//                   [&](const auto& operation) { return make_kernel_for(engine, spec, operation); });
//
// A device has one make_kernel_for per operation; one that is missing does not compile. A device that cannot do an operation has one
// all the same, which fails with kUnavailable and says so.
#pragma once

#include <memory>
#include <variant>

#include "core/base/check.h"
#include "core/device/device.h"

namespace millrace {

template <typename MakeFinish, typename MakeKernelFor>
std::unique_ptr<Kernel> dispatch(const KernelSpec& spec, const MakeFinish& make_finish, const MakeKernelFor& make_kernel_for) {
  MILLRACE_CHECK(!spec.inputs.empty() && spec.micro_batch > 0, "{}: {} inputs, micro-batch {}", spec.layer, spec.inputs.size(),
                 spec.micro_batch);
  if (!spec.finish) {
    const Shape expected = infer_shape(spec.operation, spec.inputs, spec.layer);
    MILLRACE_CHECK(expected == spec.output, "{}: output {}, expected {}", spec.layer, text_of(spec.output), text_of(expected));
  } else if (role_of(spec.operation) != Role::kRecurrence) {  // whose steps follow the sum: a kernel of its own kind
    return make_finish();
  }
  return std::visit(make_kernel_for, spec.operation);
}

}  // namespace millrace
