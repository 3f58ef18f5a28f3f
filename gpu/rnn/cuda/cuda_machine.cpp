#include "gpu/rnn/cuda/cuda_machine.h"

#include <algorithm>
#include <map>
#include <set>

#include "gpu/rnn/architectures.h"
#include "gpu/rnn/cuda/compile_at_run_time.h"
#include "gpu/rnn/cuda/cublas.h"
#include "gpu/rnn/cuda/cudnn_library.h"
#include "gpu/rnn/cuda/helper_kernels.h"
#include "gpu/rnn/cuda/shipped_kernels.h"
#include "gpu/rnn/shared_reservations.h"

namespace millrace::rnn {
namespace {

class RealGpu : public CudaMachine {
 public:
  RealGpu(int device, const CudaMachineOptions& options)
      : stream_(options.stream), owns_stream_(options.stream == nullptr), spare_multiprocessors_(options.spare_multiprocessors) {
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found != cudaSuccess || count < 1)
      throw RnnError(RnnFailure::kNoGpu, std::string("the CUDA runtime says \"") +
                                             (found != cudaSuccess ? cudaGetErrorString(found) : "no device") +
                                             "\"; run on a machine with an NVIDIA GPU and its driver, or use the CPU");
    if (device < 0 || device >= count)
      throw RnnError(RnnFailure::kNoGpu,
                     "there is no GPU " + std::to_string(device) + "; this machine has 0 to " + std::to_string(count - 1));
    require(cudaSetDevice(device), "choosing the GPU");
    require(cudaGetDeviceProperties(&properties_, device), "asking for its properties");
    for (const auto add : {add_shipped_lstm, add_shipped_gru, add_shipped_canonical_gru, add_shipped_vanilla}) add(kernels_);
    cudaFuncAttributes attributes{};
    const cudaError_t compiled = cudaFuncGetAttributes(&attributes, kernels_.front().entry);
    if (compiled != cudaSuccess)
      throw RnnError(RnnFailure::kWrongArchitecture,
                     std::string(properties_.name) + " has compute capability " + std::to_string(properties_.major) + "." +
                         std::to_string(properties_.minor) + " and the kernels were compiled for others (" + cudaGetErrorString(compiled) +
                         "); configure with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(architecture()) + " and build again");
    if (owns_stream_) require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    count_clusters();
    cublas_ = load_cublas(stream_);
  }

  ~RealGpu() override {
    cudnn_.reset();
    cublas_.reset();
    for (void* memory : allocations_) cudaFree(memory);
    if (owns_stream_) cudaStreamDestroy(stream_);
  }

  std::string name() const override { return properties_.name; }
  Limits limits() const override {
    return {std::max(1, properties_.multiProcessorCount - spare_multiprocessors_), static_cast<int>(properties_.sharedMemPerBlockOptin),
            std::min(clusters_, (properties_.multiProcessorCount - spare_multiprocessors_) / kBlocksOfCluster)};
  }
  const std::vector<Kernel>& kernels() const override { return kernels_; }
  Gpu constants() const override { return constants_of(architecture(), properties_.multiProcessorCount); }
  void add_kernel(const Kernel& kernel) override { kernels_.push_back(kernel); }
  cudaStream_t stream() const override { return stream_; }
  bool has_cublas() const override { return cublas_ != nullptr; }
  int architecture() const override { return 10 * properties_.major + properties_.minor; }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw RnnError(RnnFailure::kOutOfMemory, name() + " has no " + std::to_string(bytes >> 20U) +
                                                   " MiB left; make the batch or the sequence smaller, or free the GPU");
    }
    require(code, "allocating memory");
    allocations_.insert(memory);
    return memory;
  }
  void release(void* memory) override {
    if (allocations_.erase(memory) > 0) cudaFree(memory);
  }
  void copy_to(void* device, const void* host, std::size_t bytes) override {
    require(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "copying to the GPU");
    require(cudaStreamSynchronize(stream_), "copying to the GPU");
  }
  void copy_from(void* host, const void* device, std::size_t bytes) override {
    require(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the GPU");
    require(cudaStreamSynchronize(stream_), "copying from the GPU");
  }
  void fill(void* memory, int byte, std::size_t bytes) override {
    require(cudaMemsetAsync(memory, byte, bytes, stream_), "filling memory");
  }

  void run(const Kernel& kernel, const Grid& grid, const Parameters& parameters) override {
    const void* const entry = entry_of(kernel);
    reserved_.raise(entry, grid.shared_bytes, [&] {
      require(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, grid.shared_bytes), "reserving shared memory");
    });
    Parameters copy = parameters;
    void* arguments[] = {&copy};
    cudaLaunchAttribute attributes[2];
    const cudaLaunchConfig_t config = configuration(kernel, grid, attributes, true);
    const cudaError_t code = cudaLaunchKernelExC(&config, entry, arguments);
    if (code == cudaErrorCooperativeLaunchTooLarge) {
      cudaGetLastError();
      throw RnnError(RnnFailure::kUnsupportedSize, std::to_string(grid.blocks) + " blocks of " + name_of(kernel.shape) +
                                                       " do not fit on the GPU at once; is a part of it reserved for others (MIG, MPS)?");
    }
    require(code, "launching a persistent kernel");
  }
  void multiply(const MatrixJob& job, Precision precision) override {
    if (job.rows < 1 || job.columns < 1) return;
    if (cublas_ && job.depth > 0) {
      if (job.bias != nullptr) launch_spread_bias(job, stream_);
      if (cublas_->multiply(job, precision)) return;
    }
    launch_multiply(job, precision, stream_);
    require(cudaGetLastError(), "launching a matrix product");
  }
  void sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns) override {
    launch_sum_rows(matrix, precision, sums, rows, columns, stream_);
    require(cudaGetLastError(), "launching a sum");
  }
  void change_format(const float* from, void* to, Precision precision, long long count) override {
    if (count > 0) launch_change_format(from, to, precision, count, stream_);
    require(cudaGetLastError(), "launching a change of format");
  }
  void widen(const void* from, Precision precision, float* to, long long count) override {
    if (count > 0) launch_widen(from, precision, to, count, stream_);
    require(cudaGetLastError(), "launching a change of format");
  }
  void single_step(const KernelShape& shape, int phase, const Parameters& p, int side, int step, const float* sums) override {
    launch_single_step(shape, phase, p, side, step, sums, stream_);
    require(cudaGetLastError(), "launching a step");
  }
  void finish() override { require(cudaStreamSynchronize(stream_), "waiting for the GPU"); }
  Library* dnn_library() override {
    if (!asked_for_cudnn_) cudnn_ = load_cudnn(*this);
    asked_for_cudnn_ = true;  // one that does not start says so each time
    return cudnn_.get();
  }

 private:
  // All blocks resident at once, in clusters where the kernel wants them. `attributes`: two, which the result points to.
  cudaLaunchConfig_t configuration(const Kernel& kernel, const Grid& grid, cudaLaunchAttribute* attributes, bool cooperative) const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
    config.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(grid.shared_bytes);
    config.stream = stream_;
    config.attrs = attributes;
    if (cooperative) {
      attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
      attributes[config.numAttrs++].val.cooperative = 1;
    }
    if (kernel.shape.cluster > 1) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs].val.clusterDim.x = static_cast<unsigned>(kernel.shape.cluster);
      attributes[config.numAttrs].val.clusterDim.y = 1;
      attributes[config.numAttrs++].val.clusterDim.z = 1;
    }
    return config;
  }

  // How many clusters fit beside each other depends on which multiprocessors of each of its parts a GPU has: asked of the kernel that
  // takes most, with all shared memory. What the runtime does not know is none.
  void count_clusters() {
    if (properties_.major < 9) return;
    for (const Kernel& kernel : kernels_) {
      if (kernel.shape.cluster == 1) continue;
      const Grid grid{kernel.shape.cluster, kKernelThreads, static_cast<int>(properties_.sharedMemPerBlockOptin)};
      reserved_.raise(kernel.entry, grid.shared_bytes, [&] {
        require(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, grid.shared_bytes),
                "reserving shared memory");
      });
      cudaLaunchAttribute attributes[2];
      const cudaLaunchConfig_t config = configuration(kernel, grid, attributes, false);
      int found = 0;
      if (cudaOccupancyMaxActiveClusters(&found, kernel.entry, &config) != cudaSuccess) {
        cudaGetLastError();
        found = 0;
      }
      clusters_ = found;
      return;
    }
  }

  // Code of a shape that is not shipped is made when it first runs.
  const void* entry_of(const Kernel& kernel) {
    if (kernel.entry != nullptr) return kernel.entry;
    const void*& entry = compiled_[name_of(kernel.shape)];
    if (entry == nullptr) entry = load_compiled(compile_at_run_time(kernel.shape, architecture()));
    return entry;
  }

  cudaDeviceProp properties_{};
  cudaStream_t stream_;
  bool owns_stream_;
  int spare_multiprocessors_;
  int clusters_ = 0;
  std::vector<Kernel> kernels_;
  std::map<std::string, const void*> compiled_;
  std::set<void*> allocations_;
  SharedReservations reserved_;
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Library> cudnn_;
  bool asked_for_cudnn_ = false;
};

}  // namespace

void require(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // what is reported here is not the next launch's failure
  const std::string said = std::string(doing) + ": " + cudaGetErrorString(code);
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver: throw RnnError(RnnFailure::kNoGpu, said + "; run on a machine with an NVIDIA GPU and its driver");
    case cudaErrorMemoryAllocation: throw RnnError(RnnFailure::kOutOfMemory, said + "; make the batch or the sequence smaller");
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      throw RnnError(RnnFailure::kWrongArchitecture, said + "; configure with this GPU's CMAKE_CUDA_ARCHITECTURES");
    default: throw RnnError(RnnFailure::kGpuFault, said + "; run again under compute-sanitizer to see where");
  }
}

std::unique_ptr<CudaMachine> cuda_machine(int device, const CudaMachineOptions& options) {
  return std::make_unique<RealGpu>(device, options);
}

}  // namespace millrace::rnn
