#include "gpu/rnn/cuda/cublas.h"

#include <dlfcn.h>
#include <library_types.h>

namespace millrace::rnn {
namespace {

// The few entry points and values of cuBLAS's C interface that are used, as its documentation gives them.
using Handle = void*;
using Create = int (*)(Handle*);
using Destroy = int (*)(Handle);
using SetStream = int (*)(Handle, cudaStream_t);
using Multiply = int (*)(Handle, int, int, int, int, int, const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                         const void*, void*, cudaDataType, int, int, int);
constexpr int kAsItIs = 0;
constexpr int kTransposed = 1;
constexpr int kComputeFloat = 68;  // fp32 without TF32
constexpr int kAnyAlgorithm = -1;

struct Operand {
  int transposed;
  long long leading;
};

// A row-major matrix is the library's transposed one.
bool as_operand(long long row, long long column, Operand& operand) {
  if (column == 1)
    operand = {kAsItIs, row};
  else if (row == 1)
    operand = {kTransposed, column};
  else
    return false;
  return operand.leading > 0 && operand.leading < (1LL << 31);
}

class LoadedCublas : public Cublas {
 public:
  LoadedCublas(void* library, Handle handle) : library_(library), handle_(handle) {}
  ~LoadedCublas() override { reinterpret_cast<Destroy>(dlsym(library_, "cublasDestroy_v2"))(handle_); }

  bool multiply(const MatrixJob& job, Precision precision) override {
    Operand left{};
    Operand right{};
    if (job.depth < 1 || job.rows < 1 || !as_operand(job.left_row, job.left_column, left) ||
        !as_operand(job.right_row, job.right_column, right))
      return false;
    const cudaDataType type = precision == Precision::kFloat ? CUDA_R_32F : precision == Precision::kHalf ? CUDA_R_16F : CUDA_R_16BF;
    const float one = 1;
    const float kept = job.add != 0 || job.bias != nullptr ? 1 : 0;
    return multiply_(handle_, right.transposed, left.transposed, job.columns, job.rows, job.depth, &one, job.right, type,
                     static_cast<int>(right.leading), job.left, type, static_cast<int>(left.leading), &kept, job.result, CUDA_R_32F,
                     static_cast<int>(job.result_row), kComputeFloat, kAnyAlgorithm) == 0;
  }

 private:
  void* library_;
  Handle handle_;
  Multiply multiply_ = reinterpret_cast<Multiply>(dlsym(library_, "cublasGemmEx"));
};

}  // namespace

void* load_library(const std::string& name, int major) {
  const std::string file = "lib" + name + ".so";
  void* const library = dlopen((file + "." + std::to_string(major)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? library : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* load_library_of_cuda(const std::string& name) { return load_library(name, CUDART_VERSION / 1000); }

std::unique_ptr<Cublas> load_cublas(cudaStream_t stream) {
  void* const library = load_library_of_cuda("cublas");
  if (library == nullptr) return nullptr;
  const auto create = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"));
  const auto set_stream = reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"));
  Handle handle = nullptr;
  if (create == nullptr || set_stream == nullptr || dlsym(library, "cublasGemmEx") == nullptr ||
      dlsym(library, "cublasDestroy_v2") == nullptr || create(&handle) != 0)
    return nullptr;
  auto cublas = std::make_unique<LoadedCublas>(library, handle);
  return set_stream(handle, stream) == 0 ? std::move(cublas) : nullptr;
}

}  // namespace millrace::rnn
