#include "gpu/rnn/cuda/compile_at_run_time.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <utility>

#include "gpu/rnn/cuda/cublas.h"
#include "gpu/rnn/cuda/cuda_machine.h"
#include "gpu/rnn/cuda/kernel_sources.h"
#include "gpu/rnn/dispatch.h"

namespace millrace::rnn {
namespace {

struct Nvrtc {
  void* handle = load_library_of_cuda("nvrtc");
#define MILLRACE_NVRTC(name) \
  decltype(&::name) name = handle == nullptr ? nullptr : reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));
  MILLRACE_NVRTC(nvrtcCreateProgram)
  MILLRACE_NVRTC(nvrtcDestroyProgram)
  MILLRACE_NVRTC(nvrtcAddNameExpression)
  MILLRACE_NVRTC(nvrtcCompileProgram)
  MILLRACE_NVRTC(nvrtcGetLoweredName)
  MILLRACE_NVRTC(nvrtcGetCUBINSize)
  MILLRACE_NVRTC(nvrtcGetCUBIN)
  MILLRACE_NVRTC(nvrtcGetProgramLogSize)
  MILLRACE_NVRTC(nvrtcGetProgramLog)
  MILLRACE_NVRTC(nvrtcGetErrorString)
#undef MILLRACE_NVRTC
};

const char* identifier_of(Recurrence recurrence) {
  switch (recurrence) {
    case Recurrence::kLstm: return "kLstm";
    case Recurrence::kGru: return "kGru";
    case Recurrence::kCanonicalGru: return "kCanonicalGru";
    case Recurrence::kTanh: return "kTanh";
    case Recurrence::kRelu: return "kRelu";
  }
  return "";
}

const char* identifier_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return "float";
    case Precision::kHalf: return "millrace::rnn::Half";
    case Precision::kBFloat16: return "millrace::rnn::BFloat16";
  }
  return "";
}

std::string expression_of(const KernelShape& s) {
  const auto number = [](int value) { return std::to_string(value) + ", "; };
  const std::string product = number(s.rows) + number(s.columns) + number(s.group) + std::to_string(s.samples);
  if (s.width > 0)
    return "millrace::rnn::run_time_kernel<millrace::rnn::GruOneExchange<millrace::rnn::FmaProduct<" + product + ">, " + number(s.width) +
           std::to_string(s.outputs) + ">>";
  return std::string("millrace::rnn::run_time_kernel<millrace::rnn::KernelOf<millrace::rnn::Recurrence::") + identifier_of(s.recurrence) +
         ", " + (s.backward ? "true, " : "false, ") + identifier_of(s.precision) + (s.matrix_units ? ", true, " : ", false, ") + product +
         (s.cluster > 1 ? ", " + std::to_string(s.cluster) : "") + ">>";
}

constexpr const char* kProgram =
    "#include \"gpu/rnn/kernels/shapes.h\"\n"
    "namespace millrace::rnn {\n"
    "template <class K> __global__ void __launch_bounds__(kKernelThreads, 1) run_time_kernel(Parameters parameters) { K::run(parameters); "
    "}\n"
    "}\n";

template <Recurrence kRecurrence, bool kBackward, int kRows, int kColumns, int kGroup, int kSamples>
void add(std::vector<Kernel>& table) {
  // 128 weights at most, for both phases of a cell together; sums beside them.
  constexpr int kWeights = kRows * kColumns * (kRecurrence == Recurrence::kCanonicalGru ? 3 : 2) / 2;
  if constexpr (kWeights <= 128 && kWeights >= 32 && kRows * kSamples <= 32) {
    using K = KernelOf<kRecurrence, kBackward, float, false, kRows, kColumns, kGroup, kSamples>;
    table.push_back({{kRecurrence, kBackward, Precision::kFloat, false, kRows, kColumns, kGroup, kSamples}, &K::shared_bytes, nullptr});
  }
}
template <Recurrence kRecurrence, bool kBackward, int kRows, int kColumns, int... kSamples>
void add_groups(std::vector<Kernel>& table, std::integer_sequence<int, kSamples...>) {
  (add<kRecurrence, kBackward, kRows, kColumns, 8, kSamples>(table), ...);
  (add<kRecurrence, kBackward, kRows, kColumns, 16, kSamples>(table), ...);
  (add<kRecurrence, kBackward, kRows, kColumns, 32, kSamples>(table), ...);
}
template <Recurrence kRecurrence, bool kBackward>
void add_tiles(std::vector<Kernel>& table) {
  constexpr std::integer_sequence<int, 1, 2, 4, 8> kSamples;
  add_groups<kRecurrence, kBackward, 2, 16>(table, kSamples);
  add_groups<kRecurrence, kBackward, 2, 32>(table, kSamples);
  add_groups<kRecurrence, kBackward, 4, 8>(table, kSamples);
  add_groups<kRecurrence, kBackward, 4, 16>(table, kSamples);
  add_groups<kRecurrence, kBackward, 8, 8>(table, kSamples);
  add_groups<kRecurrence, kBackward, 8, 12>(table, kSamples);
}
template <Recurrence kRecurrence>
void add_recurrence(std::vector<Kernel>& table) {
  add_tiles<kRecurrence, false>(table);
  add_tiles<kRecurrence, true>(table);
}

}  // namespace

CompiledKernel compile_at_run_time(const KernelShape& shape, int architecture) {
  static const Nvrtc nvrtc;
  if (nvrtc.handle == nullptr || nvrtc.nvrtcGetCUBIN == nullptr)
    throw RnnError(RnnFailure::kMissingPart, "CUDA's run-time compiler (libnvrtc) cannot be loaded, and " + name_of(shape) +
                                                 " is not among the shipped kernels; put its folder into LD_LIBRARY_PATH");
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const KernelSource& source : kKernelSources) {
    names.push_back(source.name);
    texts.push_back(source.text);
  }
  nvrtcProgram program = nullptr;
  const auto require_done = [&](nvrtcResult result, const char* doing) {
    if (result == NVRTC_SUCCESS) return;
    std::string log;
    std::size_t size = 0;
    if (program != nullptr && nvrtc.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size);
      nvrtc.nvrtcGetProgramLog(program, log.data());
    }
    const std::string said = nvrtc.nvrtcGetErrorString(result);
    if (program != nullptr) nvrtc.nvrtcDestroyProgram(&program);
    throw RnnError(RnnFailure::kWrongArchitecture,
                   "compiling " + name_of(shape) + " for sm_" + std::to_string(architecture) + ", " + doing + ": " + said + "\n" + log);
  };
  require_done(
      nvrtc.nvrtcCreateProgram(&program, kProgram, "run_time_kernel.cu", static_cast<int>(names.size()), texts.data(), names.data()),
      "taking the sources");
  const std::string expression = expression_of(shape);
  require_done(nvrtc.nvrtcAddNameExpression(program, expression.c_str()), "naming the kernel");
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const char* const options[] = {target.c_str(), "--std=c++20"};
  require_done(nvrtc.nvrtcCompileProgram(program, 2, options), "compiling");
  const char* lowered = nullptr;
  require_done(nvrtc.nvrtcGetLoweredName(program, expression.c_str(), &lowered), "finding the kernel");
  CompiledKernel compiled;
  compiled.name = lowered;
  std::size_t bytes = 0;
  require_done(nvrtc.nvrtcGetCUBINSize(program, &bytes), "taking the code");
  compiled.code.resize(bytes);
  require_done(nvrtc.nvrtcGetCUBIN(program, compiled.code.data()), "taking the code");
  nvrtc.nvrtcDestroyProgram(&program);
  return compiled;
}

bool can_load_compiled() { return CUDART_VERSION >= 12080; }

const void* load_compiled(const CompiledKernel& compiled) {
#if CUDART_VERSION >= 12080
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  require(cudaLibraryLoadData(&library, compiled.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "loading a compiled kernel");
  require(cudaLibraryGetKernel(&kernel, library, compiled.name.c_str()), "finding a compiled kernel");
  return kernel;
#else
  throw RnnError(RnnFailure::kMissingPart, "this build's CUDA runtime cannot load " + compiled.name + "; build with CUDA 12.8 or newer");
#endif
}

std::vector<Kernel> kernels_for_run_time() {
  std::vector<Kernel> table;
  if (!can_load_compiled()) return table;
  add_recurrence<Recurrence::kLstm>(table);
  add_recurrence<Recurrence::kGru>(table);
  add_recurrence<Recurrence::kCanonicalGru>(table);
  add_recurrence<Recurrence::kTanh>(table);
  add_recurrence<Recurrence::kRelu>(table);
  return table;
}

}  // namespace millrace::rnn
