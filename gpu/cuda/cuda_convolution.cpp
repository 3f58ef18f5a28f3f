#include "gpu/cuda/cuda_convolution.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/cuda_check.h"
#include "gpu/cuda/cuda_work.h"

namespace millrace::gpu {

namespace {

constexpr int64_t kDirect = -1;  // the algorithm of shapes that cuDNN has none for

// What all three phases' results have in common.
struct Candidate {
  int64_t algorithm;
  cudnnStatus_t status;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
};

template <typename Performance>
std::vector<Candidate> candidates_of(const std::vector<Performance>& performances, int count) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) {
    const Performance& p = performances[static_cast<size_t>(i)];
    candidates.push_back({static_cast<int64_t>(p.algo), p.status, p.determinism, p.mathType});
  }
  return candidates;
}

constexpr const char* kNames[3][8] = {
    {"implicit gemm", "implicit precomputed gemm", "gemm", "direct", "fft", "fft tiling", "winograd", "winograd nonfused"},
    {"algorithm 0", "algorithm 1", "fft", "fft tiling", "winograd", "winograd nonfused", "", ""},
    {"algorithm 0", "algorithm 1", "fft", "algorithm 3", "winograd", "winograd nonfused", "fft tiling", ""}};

std::string key_of(const ConvolutionGeometry& g, Precision precision, bool channels_last) {
  std::string key = std::to_string(static_cast<int>(precision)) + (channels_last ? " last" : "");
  for (const int64_t value : {g.samples, g.inputs, g.height, g.width, g.outputs, g.output_height, g.output_width, g.kernel_h, g.kernel_w,
                              g.stride_h, g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w, g.groups})
    key.append(1, ' ').append(std::to_string(value));
  return key;
}

int as_int(int64_t value) {
  if (value > INT32_MAX) throw Failure(Failure::Kind::kBroken, "cuDNN takes no extents beyond 2^31 - 1; take a smaller micro-batch");
  return static_cast<int>(value);
}

cudnnMathType_t math_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return CUDNN_FMA_MATH;
    case Precision::kTensorFloat32: return CUDNN_DEFAULT_MATH;
    default: break;
  }
  return CUDNN_TENSOR_OP_MATH;
}

// Memory for measuring, given back at the end.
class Trial {
 public:
  explicit Trial(size_t bytes) : bytes_(bytes) { MILLRACE_CUDA(cudaMalloc(&memory_, bytes)); }
  ~Trial() { cudaFree(memory_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  void* get() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
};

}  // namespace

struct CudaConvolutions::Descriptors {
  cudnnTensorDescriptor_t input = nullptr, output = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;

  Descriptors(const ConvolutionGeometry& g, Precision precision, bool channels_last) {
    const cudnnTensorFormat_t format = channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const cudnnDataType_t type = precision == Precision::kFloat16    ? CUDNN_DATA_HALF
                                 : precision == Precision::kBfloat16 ? CUDNN_DATA_BFLOAT16
                                                                     : CUDNN_DATA_FLOAT;
    MILLRACE_CUDA(cudnnCreateTensorDescriptor(&input));
    MILLRACE_CUDA(cudnnCreateTensorDescriptor(&output));
    MILLRACE_CUDA(cudnnCreateFilterDescriptor(&weight));
    MILLRACE_CUDA(cudnnCreateConvolutionDescriptor(&convolution));
    MILLRACE_CUDA(cudnnSetTensor4dDescriptor(input, format, type, as_int(g.samples), as_int(g.inputs), as_int(g.height), as_int(g.width)));
    MILLRACE_CUDA(cudnnSetTensor4dDescriptor(output, format, type, as_int(g.samples), as_int(g.outputs), as_int(g.output_height),
                                             as_int(g.output_width)));
    MILLRACE_CUDA(cudnnSetFilter4dDescriptor(weight, type, format, as_int(g.outputs), as_int(g.inputs / g.groups), as_int(g.kernel_h),
                                             as_int(g.kernel_w)));
    MILLRACE_CUDA(cudnnSetConvolution2dDescriptor(convolution, as_int(g.pad_h), as_int(g.pad_w), as_int(g.stride_h), as_int(g.stride_w),
                                                  as_int(g.dilation_h), as_int(g.dilation_w), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    MILLRACE_CUDA(cudnnSetConvolutionGroupCount(convolution, as_int(g.groups)));
    MILLRACE_CUDA(cudnnSetConvolutionMathType(convolution, math_of(precision)));
  }
  ~Descriptors() {
    cudnnDestroyConvolutionDescriptor(convolution);
    cudnnDestroyFilterDescriptor(weight);
    cudnnDestroyTensorDescriptor(output);
    cudnnDestroyTensorDescriptor(input);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
};

namespace {

template <typename Descriptors>
cudnnStatus_t workspace_of(cudnnHandle_t handle, const Descriptors& d, ConvolutionPhase phase, int64_t algorithm, size_t& bytes) {
  switch (phase) {
    case ConvolutionPhase::kForward:
      return cudnnGetConvolutionForwardWorkspaceSize(handle, d.input, d.weight, d.convolution, d.output,
                                                     static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
    case ConvolutionPhase::kInputError:
      return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.weight, d.output, d.convolution, d.input,
                                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes);
    case ConvolutionPhase::kWeightGradient: break;
  }
  return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.input, d.output, d.convolution, d.weight,
                                                        static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes);
}

}  // namespace

CudaConvolutions::CudaConvolutions(cudnnHandle_t handle, cudaStream_t stream) : handle_(handle), stream_(stream) {}
CudaConvolutions::~CudaConvolutions() = default;

CudaConvolutions::Descriptors& CudaConvolutions::descriptors(const ConvolutionGeometry& geometry, Precision precision, bool channels_last) {
  std::unique_ptr<Descriptors>& known = known_[key_of(geometry, precision, channels_last)];
  if (!known) known = std::make_unique<Descriptors>(geometry, precision, channels_last);
  return *known;
}

ConvolutionChoice CudaConvolutions::choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision,
                                           size_t most_workspace, bool measure) {
  if (is_narrow(precision) && geometry.groups == 1) {
    const ConvolutionChoice choice = choose_in(true, geometry, phase, precision, most_workspace, measure);
    if (choice.algorithm != kDirect) return choice;
  }
  return choose_in(false, geometry, phase, precision, most_workspace, measure);
}

ConvolutionChoice CudaConvolutions::choose_in(bool channels_last, const ConvolutionGeometry& geometry, ConvolutionPhase phase,
                                              Precision precision, size_t most_workspace, bool measure) {
  const Descriptors& d = descriptors(geometry, precision, channels_last);
  const size_t element = is_narrow(precision) ? 2 : 4;
  std::unique_ptr<Trial> x, w, y, space;
  if (measure) {
    x = std::make_unique<Trial>(static_cast<size_t>(geometry.input_elements()) * element);
    w = std::make_unique<Trial>(static_cast<size_t>(geometry.weight_elements()) * element);
    y = std::make_unique<Trial>(static_cast<size_t>(geometry.output_elements()) * element);
    space = std::make_unique<Trial>(most_workspace > 0 ? most_workspace : 1);
    for (const Trial* trial : {x.get(), w.get(), y.get()}) MILLRACE_CUDA(cudaMemset(trial->get(), 0, trial->bytes()));
  }
  constexpr int kMost = 16;
  int count = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // a shape that cuDNN does not know has no candidates
  std::vector<Candidate> candidates;
  switch (phase) {
    case ConvolutionPhase::kForward: {
      std::vector<cudnnConvolutionFwdAlgoPerf_t> found(kMost);
      if (measure)
        status = cudnnFindConvolutionForwardAlgorithmEx(handle_, d.input, x->get(), d.weight, w->get(), d.convolution, d.output, y->get(),
                                                        kMost, &count, found.data(), space->get(), most_workspace);
      else
        status = cudnnGetConvolutionForwardAlgorithm_v7(handle_, d.input, d.weight, d.convolution, d.output, kMost, &count, found.data());
      if (status == CUDNN_STATUS_SUCCESS) candidates = candidates_of(found, count);
      break;
    }
    case ConvolutionPhase::kInputError: {
      std::vector<cudnnConvolutionBwdDataAlgoPerf_t> found(kMost);
      if (measure)
        status = cudnnFindConvolutionBackwardDataAlgorithmEx(handle_, d.weight, w->get(), d.output, y->get(), d.convolution, d.input,
                                                             x->get(), kMost, &count, found.data(), space->get(), most_workspace);
      else
        status =
            cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, d.weight, d.output, d.convolution, d.input, kMost, &count, found.data());
      if (status == CUDNN_STATUS_SUCCESS) candidates = candidates_of(found, count);
      break;
    }
    case ConvolutionPhase::kWeightGradient: {
      std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> found(kMost);
      if (measure)
        status = cudnnFindConvolutionBackwardFilterAlgorithmEx(handle_, d.input, x->get(), d.output, y->get(), d.convolution, d.weight,
                                                               w->get(), kMost, &count, found.data(), space->get(), most_workspace);
      else
        status =
            cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, d.input, d.output, d.convolution, d.weight, kMost, &count, found.data());
      if (status == CUDNN_STATUS_SUCCESS) candidates = candidates_of(found, count);
      break;
    }
  }
  // Best first. The arithmetic must be the one that was asked for, and the same every time; what workspace it takes is asked again, of the
  // convolution as it will run.
  for (const Candidate& c : candidates) {
    if (c.status != CUDNN_STATUS_SUCCESS || c.determinism != CUDNN_DETERMINISTIC) continue;
    if (precision == Precision::kFloat32 && c.math != CUDNN_FMA_MATH && c.math != CUDNN_DEFAULT_MATH) continue;
    size_t workspace = 0;
    if (workspace_of(handle_, d, phase, c.algorithm, workspace) != CUDNN_STATUS_SUCCESS || workspace > most_workspace) continue;
    // What cuDNN says of sixteen bits with channels last and what it then takes need not be the same: tried once.
    if (channels_last && !takes(geometry, phase, precision, c.algorithm, workspace)) continue;
    const char* const name = kNames[static_cast<size_t>(phase)][static_cast<size_t>(c.algorithm) & 7];
    return {c.algorithm, workspace, std::string("cuDNN ") + name + (channels_last ? ", channels last" : ""), channels_last};
  }
  return {kDirect, 0, "plain loops"};
}

bool CudaConvolutions::takes(const ConvolutionGeometry& g, ConvolutionPhase phase, Precision precision, int64_t algorithm,
                             size_t workspace) {
  const bool forward = phase == ConvolutionPhase::kForward, gradient = phase == ConvolutionPhase::kWeightGradient;
  const int64_t x = g.input_elements(), w = g.weight_elements(), y = g.output_elements();
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements * bytes_of(precision)); };
  const size_t sizes[] = {bytes(forward || gradient ? x : y), bytes(gradient ? y : w),
                          bytes(forward    ? y
                                : gradient ? w
                                           : x),
                          workspace + 1};
  void* memory[4] = {};
  bool taken = true;
  for (size_t i = 0; i < 4; ++i)
    taken = taken && cudaMalloc(&memory[i], sizes[i]) == cudaSuccess && cudaMemsetAsync(memory[i], 0, sizes[i], stream_) == cudaSuccess;
  if (taken)
    taken = queue({.geometry = g,
                   .phase = phase,
                   .precision = precision,
                   .algorithm = algorithm,
                   .channels_last = true,
                   .first = memory[0],
                   .second = memory[1],
                   .result = memory[2],
                   .workspace = memory[3],
                   .workspace_bytes = workspace}) == CUDNN_STATUS_SUCCESS &&
            cudaStreamSynchronize(stream_) == cudaSuccess;
  for (void* piece : memory) cudaFree(piece);
  cudaGetLastError();  // what was refused here is no failure
  return taken;
}

void CudaConvolutions::run(const Convolution& call) {
  if (call.algorithm == kDirect) return launch(direct_convolution(call), stream_);
  check(queue(call), "a convolution");
}

cudnnStatus_t CudaConvolutions::queue(const Convolution& call) {
  const Descriptors& d = descriptors(call.geometry, call.precision, call.channels_last);
  const float one = 1;
  const float before = call.adds ? 1 : 0;
  switch (call.phase) {
    case ConvolutionPhase::kForward:
      return cudnnConvolutionForward(handle_, &one, d.input, call.first, d.weight, call.second, d.convolution,
                                     static_cast<cudnnConvolutionFwdAlgo_t>(call.algorithm), call.workspace, call.workspace_bytes, &before,
                                     d.output, call.result);
    case ConvolutionPhase::kInputError:
      return cudnnConvolutionBackwardData(handle_, &one, d.weight, call.second, d.output, call.first, d.convolution,
                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(call.algorithm), call.workspace, call.workspace_bytes,
                                          &before, d.input, call.result);
    case ConvolutionPhase::kWeightGradient: break;
  }
  return cudnnConvolutionBackwardFilter(handle_, &one, d.input, call.first, d.output, call.second, d.convolution,
                                        static_cast<cudnnConvolutionBwdFilterAlgo_t>(call.algorithm), call.workspace, call.workspace_bytes,
                                        &before, d.weight, call.result);
}

}  // namespace millrace::gpu
