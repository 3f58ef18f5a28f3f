// Kernels that are not shipped compile from the sources inside the program, for GPUs that are not here either.
#include <set>

#include "gpu/rnn/cuda/compile_at_run_time.h"
#include "gpu/rnn/cuda/cuda_machine.h"
#include "tests/gpu/rnn/checks.h"

int main() {
  using namespace millrace::rnn;
  const std::vector<Kernel> kernels = kernels_for_run_time();
  std::set<std::string> names;
  for (const Kernel& kernel : kernels) {
    names.insert(name_of(kernel.shape));
    expect(kernel.shape.rows * kernel.shape.columns <= 128 && kernel.shared_bytes(64, 256, 1) > 0, name_of(kernel.shape));
  }
  expect(names.size() == kernels.size() && kernels.size() > 200, std::to_string(kernels.size()) + " kernels, each once");
  try {
    const CompiledKernel compiled = compile_at_run_time({Recurrence::kTanh, false, Precision::kFloat, false, 2, 16, 16, 2}, 90);
    expect(compiled.code.size() > 1000 && compiled.code[1] == 'E' && compiled.code[2] == 'L' && compiled.code[3] == 'F', "code for sm_90");
    expect(compiled.name.find("run_time_kernel") != std::string::npos, compiled.name);
  } catch (const RnnError& error) {
    if (error.kind() == RnnFailure::kMissingPart) return skip(error.what());
    expect(false, error.what());
  }
  try {
    compile_at_run_time({Recurrence::kTanh, false, Precision::kFloat, false, 2, 16, 16, 2}, 12345);
    expect(false, "sm_12345 must be refused");
  } catch (const RnnError& error) {
    expect(error.kind() == RnnFailure::kWrongArchitecture, error.what());
  }
  // The codes of the CUDA runtime by name, as cuda_machine() raises them.
  for (const auto& [code, kind] :
       {std::pair(cudaErrorInsufficientDriver, RnnFailure::kNoGpu), std::pair(cudaErrorNoDevice, RnnFailure::kNoGpu),
        std::pair(cudaErrorMemoryAllocation, RnnFailure::kOutOfMemory),
        std::pair(cudaErrorNoKernelImageForDevice, RnnFailure::kWrongArchitecture),
        std::pair(cudaErrorIllegalAddress, RnnFailure::kGpuFault)})
    try {
      require(code, "testing");
      expect(false, "an error must be raised");
    } catch (const RnnError& error) {
      expect(error.kind() == kind, error.what());
    }
  return report("run-time compiler");
}
