// The module that drives GPUs: it is found and loaded, and what is missing behind it arrives as an error that says so.
#include "gpu/device/gpu_module.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "core/base/companion_module.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

// CUDA's libraries take longer to load than a small training on processors takes.
TEST(GpuModule, LoadsNothingWithoutADriver) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "a machine without NVIDIA's driver";
  EXPECT_EQ(count_gpus().count, 0);
  EXPECT_EQ(mapped_files().find("libmillrace_cuda"), std::string::npos);
}

// Every symbol is there, whether or not there is a driver. Behind the test before: what is loaded stays.
TEST(GpuModule, Loads) {
  const CompanionModule module = load_companion("libmillrace_cuda.so", "", "");
  if (module.path.empty()) GTEST_SKIP() << "the CUDA toolkit, cuDNN and cuBLAS when building";
  EXPECT_NE(module.function<int(char*, int)>("millrace_cuda_devices"), nullptr) << module.reason;
}

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
