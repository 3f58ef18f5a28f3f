// The module that drives GPUs: it is found and loaded, and what is missing behind it arrives as an error that says so.
#include "gpu/module/gpu_module.h"

#include <gtest/gtest.h>

#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

TEST(GpuModule, SaysWhyThereIsNoGpu) {
  const GpuCount gpus = count_gpus();
  if (gpus.count > 0) GTEST_SKIP() << "a machine without a GPU";
  EXPECT_NE(gpus.reason, "");
  expect_error(ErrorCode::kUnavailable, gpus.reason, [] { open_gpu_engine(0); });
}

TEST(GpuModule, RefusesAGpuThatIsNotThere) {
  const GpuCount gpus = count_gpus();
  if (gpus.count == 0) GTEST_SKIP() << "a GPU (" << gpus.reason << ")";
  EXPECT_NE(open_gpu_engine(0)->facts().name, "");
  expect_error(ErrorCode::kUnavailable, "there is no GPU 99", [] { open_gpu_engine(99); });
}

}  // namespace
}  // namespace millrace
