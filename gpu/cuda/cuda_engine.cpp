#include "gpu/cuda/cuda_engine.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_check.h"
#include "gpu/cuda/cuda_convolution.h"
#include "gpu/cuda/cuda_recurrence.h"
#include "gpu/cuda/cuda_work.h"

namespace millrace::gpu {

namespace {

constexpr int kLeastMajor = 8;  // what the kernels are compiled for

std::string version_text(int64_t major, int64_t minor, int64_t patch = -1) {
  std::string text = std::to_string(major) + "." + std::to_string(minor);
  return patch < 0 ? text : text + "." + std::to_string(patch);
}

std::string hexadecimal(const char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// How many GPUs; any error means none. `reason` gets why.
int count_devices(std::string& reason) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  reason = code == cudaSuccess ? "the driver knows of none" : cudaGetErrorString(code);
  cudaGetLastError();
  return 0;
}

class CudaEngine final : public Engine {
 public:
  explicit CudaEngine(int device) : device_(device) {
    std::string reason;
    const int count = count_devices(reason);
    if (count == 0)
      throw Failure(Failure::Kind::kNoDevice, "there is no GPU here (" + reason + "); run where nvidia-smi shows one, or on processors");
    if (device < 0 || device >= count)
      throw Failure(Failure::Kind::kNoDevice,
                    "there is no GPU " + std::to_string(device) + ": this machine has " + std::to_string(count) + ", numbered from 0");
    MILLRACE_CUDA(cudaSetDevice(device));
    cudaDeviceProp properties;
    MILLRACE_CUDA(cudaGetDeviceProperties(&properties, device));
    facts_.name = properties.name;
    facts_.architecture = version_text(properties.major, properties.minor);
    facts_.id = "GPU-" + hexadecimal(properties.uuid.bytes, sizeof(properties.uuid.bytes));
    facts_.number = device;
    if (properties.major < kLeastMajor)
      throw Failure(Failure::Kind::kWrongArchitecture, "GPU " + std::to_string(device) + " (" + facts_.name + ") has compute capability " +
                                                           facts_.architecture + ", and this build is for 8.0 and newer; take another");
    if (!is_compiled_for_current_gpu())
      throw Failure(Failure::Kind::kWrongArchitecture,
                    "GPU " + std::to_string(device) + " (" + facts_.name + ") has compute capability " + facts_.architecture +
                        ", and this build has neither machine code nor PTX for it; configure with -DCMAKE_CUDA_ARCHITECTURES=" +
                        std::to_string(properties.major) + std::to_string(properties.minor) + " and build again, or take another");
    for (cudaStream_t& stream : streams_) MILLRACE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (cudnnCreate(&cudnn_) != CUDNN_STATUS_SUCCESS)
      throw Failure(Failure::Kind::kMissingLibrary, "cuDNN does not start; see that version 9 is installed and on LD_LIBRARY_PATH");
    if (cublasCreate(&cublas_) != CUBLAS_STATUS_SUCCESS)
      throw Failure(Failure::Kind::kMissingLibrary, "cuBLAS does not start; see that it is installed and on LD_LIBRARY_PATH");
    MILLRACE_CUDA(cudnnSetStream(cudnn_, compute()));
    MILLRACE_CUDA(cublasSetStream(cublas_, compute()));
    // A workspace of its own keeps products the same every time, whatever runs on other streams.
    MILLRACE_CUDA(cudaMalloc(&cublas_workspace_, kCublasWorkspace));
    MILLRACE_CUDA(cublasSetWorkspace(cublas_, cublas_workspace_, kCublasWorkspace));
    MILLRACE_CUDA(cublasSetAtomicsMode(cublas_, CUBLAS_ATOMICS_NOT_ALLOWED));
    convolutions_ = std::make_unique<CudaConvolutions>(cudnn_, compute());
    int runtime = 0;
    MILLRACE_CUDA(cudaRuntimeGetVersion(&runtime));
    int cublas = 0;
    MILLRACE_CUDA(cublasGetVersion(cublas_, &cublas));
    const auto cudnn = static_cast<int64_t>(cudnnGetVersion());
    facts_.libraries = "CUDA " + version_text(runtime / 1000, runtime % 1000 / 10) + ", cuDNN " +
                       version_text(cudnn / 10000, cudnn / 100 % 100, cudnn % 100) + ", cuBLAS " +
                       version_text(cublas / 10000, cublas / 100 % 100, cublas % 100);
  }
  ~CudaEngine() override {
    cudaSetDevice(device_);
    recurrences_.reset();
    convolutions_.reset();
    if (cublas_ != nullptr) cublasDestroy(cublas_);
    if (cublas_workspace_ != nullptr) cudaFree(cublas_workspace_);
    if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) cudaStreamDestroy(stream);
  }

  Facts facts() const override { return facts_; }
  MemoryState memory() override {
    use();
    MemoryState state;
    MILLRACE_CUDA(cudaMemGetInfo(&state.free, &state.total));
    return state;
  }
  void* native(Queue queue) override { return stream(queue); }
  void* allocate(size_t bytes) override {
    use();
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(code, "cudaMalloc");
    return memory;
  }
  void release(void* memory) noexcept override {
    cudaSetDevice(device_);
    cudaFree(memory);
  }
  std::byte* allocate_pinned(size_t bytes) override {
    use();
    void* memory = nullptr;
    if (cudaMallocHost(&memory, bytes) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }
  void release_pinned(std::byte* memory) noexcept override { cudaFreeHost(memory); }

  int make_event() override {
    use();
    cudaEvent_t event = nullptr;
    MILLRACE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    return static_cast<int>(events_.size()) - 1;
  }
  void record(int event, Queue queue) override {
    use();
    MILLRACE_CUDA(cudaEventRecord(events_[static_cast<size_t>(event)], stream(queue)));
  }
  void wait(Queue queue, int event) override {
    use();
    MILLRACE_CUDA(cudaStreamWaitEvent(stream(queue), events_[static_cast<size_t>(event)], 0));
  }
  void wait_here(int event) override {
    MILLRACE_CUDA(cudaEventSynchronize(events_[static_cast<size_t>(event)]));
    check_recurrences();
  }
  void synchronize() override {
    for (cudaStream_t stream : streams_) MILLRACE_CUDA(cudaStreamSynchronize(stream));
    check_recurrences();
  }

  void copy(Queue queue, const Copy& copy) override {
    use();
    const cudaMemcpyKind kind = queue == Queue::kUpload     ? cudaMemcpyHostToDevice
                                : queue == Queue::kDownload ? cudaMemcpyDeviceToHost
                                                            : cudaMemcpyDeviceToDevice;
    if (copy.rows == 1)
      MILLRACE_CUDA(cudaMemcpyAsync(copy.to, copy.from, copy.width, kind, stream(queue)));
    else
      MILLRACE_CUDA(cudaMemcpy2DAsync(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.width, copy.rows, kind, stream(queue)));
  }
  void fill_zero(void* memory, size_t bytes) override {
    use();
    MILLRACE_CUDA(cudaMemsetAsync(memory, 0, bytes, compute()));
  }

  ConvolutionChoice choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision, size_t most_workspace,
                           bool measure) override {
    use();
    return convolutions_->choose(geometry, phase, precision, most_workspace, measure);
  }
  void convolution(const Convolution& call) override {
    use();
    convolutions_->run(call);
  }

  // Rows one after the other are cuBLAS' columns: it is asked for the transposed product, b first.
  void gemm(const Gemm& g) override {
    use();
    if (g.m == 0 || g.n == 0) return;
    const float one = 1;
    const float before = g.adds ? 1 : 0;
    const cudaDataType_t type = g.precision == Precision::kFloat16    ? CUDA_R_16F
                                : g.precision == Precision::kBfloat16 ? CUDA_R_16BF
                                                                      : CUDA_R_32F;
    const cublasComputeType_t compute = g.precision == Precision::kTensorFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
    const int row_a = g.row_a != 0 ? static_cast<int>(g.row_a) : g.transpose_a ? m : k;
    const int row_b = g.row_b != 0 ? static_cast<int>(g.row_b) : g.transpose_b ? k : n;
    const int row_result = g.row_result != 0 ? static_cast<int>(g.row_result) : n;
    MILLRACE_CUDA(cublasGemmStridedBatchedEx(cublas_, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                             n, m, k, &one, g.b, type, row_b, g.step_b, g.a, type, row_a, g.step_a, &before, g.result,
                                             CUDA_R_32F, row_result, g.step_result, static_cast<int>(g.batch), compute,
                                             CUBLAS_GEMM_DEFAULT));
  }
  RecurrenceChoice choose(const RecurrenceGeometry& geometry) override {
    use();
    if (recurrences_ == nullptr) recurrences_ = std::make_unique<CudaRecurrences>(device_, compute());
    return recurrences_->choose(geometry);
  }
  void recurrence(const Recurrence& call) override {
    use();
    recurrences_->run(call);
  }
  void run(const ElementWork& work) override {
    use();
    launch(work, compute());
  }
  void run(const ReductionWork& work) override {
    use();
    launch(work, compute());
  }

  bool begin_capture() override {
    use();
    if (cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) return true;
    cudaGetLastError();
    return false;
  }
  int end_capture() override {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    const bool captured =
        cudaStreamEndCapture(compute(), &graph) == cudaSuccess && graph != nullptr && cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess;
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // of a capture that broke: the stream is as it was
    if (!captured) return -1;
    graphs_.push_back(ready);
    return static_cast<int>(graphs_.size()) - 1;
  }
  void replay(int graph) override {
    use();
    MILLRACE_CUDA(cudaGraphLaunch(graphs_[static_cast<size_t>(graph)], compute()));
  }

 private:
  static constexpr size_t kCublasWorkspace = size_t{32} << 20;

  // Several devices may share a thread.
  void use() { MILLRACE_CUDA(cudaSetDevice(device_)); }
  void check_recurrences() const {
    if (recurrences_ != nullptr) recurrences_->check();
  }
  cudaStream_t stream(Queue queue) const { return streams_[static_cast<size_t>(queue)]; }
  cudaStream_t compute() const { return stream(Queue::kCompute); }

  int device_;
  Facts facts_;
  std::array<cudaStream_t, kQueues> streams_{};
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;
  cudnnHandle_t cudnn_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  void* cublas_workspace_ = nullptr;
  std::unique_ptr<CudaConvolutions> convolutions_;
  std::unique_ptr<CudaRecurrences> recurrences_;  // when one is wanted
};

}  // namespace

}  // namespace millrace::gpu

extern "C" {

millrace::gpu::Engine* millrace_cuda_engine(int device) { return new millrace::gpu::CudaEngine(device); }

int millrace_cuda_devices(char* reason, int reason_size) {
  std::string text;
  const int count = millrace::gpu::count_devices(text);
  if (reason != nullptr && reason_size > 0) std::snprintf(reason, static_cast<size_t>(reason_size), "%s", text.c_str());
  return count;
}
}
