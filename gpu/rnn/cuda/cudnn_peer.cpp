#include "gpu/rnn/cuda/cudnn_peer.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <dlfcn.h>

#include "gpu/rnn/cuda/cublas.h"
#endif

namespace millrace::rnn {

#if __has_include(<cudnn.h>)
namespace {

// The functions used, looked up by name: nothing is linked.
struct Functions {
  void* library = nullptr;
#define MILLRACE_CUDNN(name) decltype(&::name) name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  MILLRACE_CUDNN(cudnnGetVersion)
  MILLRACE_CUDNN(cudnnGetErrorString)
  MILLRACE_CUDNN(cudnnCreate)
  MILLRACE_CUDNN(cudnnDestroy)
  MILLRACE_CUDNN(cudnnSetStream)
  MILLRACE_CUDNN(cudnnCreateDropoutDescriptor)
  MILLRACE_CUDNN(cudnnSetDropoutDescriptor)
  MILLRACE_CUDNN(cudnnDestroyDropoutDescriptor)
  MILLRACE_CUDNN(cudnnCreateTensorDescriptor)
  MILLRACE_CUDNN(cudnnSetTensorNdDescriptor)
  MILLRACE_CUDNN(cudnnGetTensorNdDescriptor)
  MILLRACE_CUDNN(cudnnDestroyTensorDescriptor)
  MILLRACE_CUDNN(cudnnCreateRNNDescriptor)
  MILLRACE_CUDNN(cudnnSetRNNDescriptor_v8)
  MILLRACE_CUDNN(cudnnDestroyRNNDescriptor)
  MILLRACE_CUDNN(cudnnBuildRNNDynamic)
  MILLRACE_CUDNN(cudnnCreateRNNDataDescriptor)
  MILLRACE_CUDNN(cudnnSetRNNDataDescriptor)
  MILLRACE_CUDNN(cudnnDestroyRNNDataDescriptor)
  MILLRACE_CUDNN(cudnnGetRNNTempSpaceSizes)
  MILLRACE_CUDNN(cudnnGetRNNWeightSpaceSize)
  MILLRACE_CUDNN(cudnnGetRNNWeightParams)
  MILLRACE_CUDNN(cudnnRNNForward)
  MILLRACE_CUDNN(cudnnRNNBackwardData_v8)
  MILLRACE_CUDNN(cudnnRNNBackwardWeights_v8)
#undef MILLRACE_CUDNN
};

class LoadedPeer;

class LoadedLayer : public PeerLayer {
 public:
  LoadedLayer(const Functions& f, cudnnHandle_t handle, CudaMachine& gpu, cudnnRNNAlgo_t algorithm, const RnnShape& shape)
      : f_(f), handle_(handle), gpu_(gpu), shape_(shape) {
    try {
      prepare(algorithm);
    } catch (...) {
      release();
      throw;
    }
  }
  ~LoadedLayer() override { release(); }

  void set_weights(int side, const Weights& weights) override {
    for (int gate = 0; gate < shape_.gates(); ++gate) {
      place(side, gate, weights.input, shape_.inputs, gate, weights.bias, gate);
      const bool candidate = shape_.recurrence == Recurrence::kGru && gate == 2;
      place(side, shape_.gates() + gate, weights.recurrent, shape_.hidden, gate, candidate ? weights.candidate_bias : std::vector<float>(),
            0);
    }
  }
  void* input() override { return x_; }
  void* output() override { return y_; }

  void forward() override {
    check(f_.cudnnRNNForward(handle_, rnn_, mode(), nullptr, x_shape_, x_, y_shape_, y_, state_shape_, nullptr, nullptr, state_shape_,
                             nullptr, nullptr, weight_bytes_, weights_, work_bytes_, work_, reserve_bytes_, reserve_),
          "forward");
  }
  void backward() override {
    gpu_.fill(weight_gradients_, 0, weight_bytes_);
    check(f_.cudnnRNNBackwardData_v8(handle_, rnn_, nullptr, y_shape_, y_, dy_, x_shape_, dx_, state_shape_, nullptr, nullptr, nullptr,
                                     state_shape_, nullptr, nullptr, nullptr, weight_bytes_, weights_, work_bytes_, work_, reserve_bytes_,
                                     reserve_),
          "backward, data");
    check(f_.cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, nullptr, x_shape_, x_, state_shape_, nullptr, y_shape_, y_,
                                        weight_bytes_, weight_gradients_, work_bytes_, work_, reserve_bytes_, reserve_),
          "backward, weights");
  }

 private:
  cudnnForwardMode_t mode() const { return shape_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }

  void check(cudnnStatus_t status, const char* doing) const {
    if (status != CUDNN_STATUS_SUCCESS)
      throw RnnError(RnnFailure::kUnsupportedSize, std::string("cuDNN, ") + doing + ": " + f_.cudnnGetErrorString(status));
  }

  void prepare(cudnnRNNAlgo_t algorithm) {
    const cudnnDataType_t type = shape_.precision == Precision::kFloat  ? CUDNN_DATA_FLOAT
                                 : shape_.precision == Precision::kHalf ? CUDNN_DATA_HALF
                                                                        : CUDNN_DATA_BFLOAT16;
    cudnnRNNMode_t cell = CUDNN_LSTM;
    switch (shape_.recurrence) {
      case Recurrence::kLstm: break;
      case Recurrence::kGru: cell = CUDNN_GRU; break;
      case Recurrence::kTanh: cell = CUDNN_RNN_TANH; break;
      case Recurrence::kRelu: cell = CUDNN_RNN_RELU; break;
      case Recurrence::kCanonicalGru: throw RnnError(RnnFailure::kUnsupportedSize, "cuDNN has no canonical GRU");
    }
    check(f_.cudnnCreateDropoutDescriptor(&dropout_), "dropout");
    check(f_.cudnnSetDropoutDescriptor(dropout_, handle_, 0, nullptr, 0, 0), "dropout");
    check(f_.cudnnCreateRNNDescriptor(&rnn_), "descriptor");
    check(f_.cudnnSetRNNDescriptor_v8(rnn_, algorithm, cell, CUDNN_RNN_DOUBLE_BIAS,
                                      shape_.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type,
                                      CUDNN_DATA_FLOAT, shape_.precision == Precision::kFloat ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH,
                                      shape_.inputs, shape_.hidden, shape_.hidden, 1, dropout_, CUDNN_RNN_PADDED_IO_DISABLED),
          "descriptor");
    if (algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) check(f_.cudnnBuildRNNDynamic(handle_, rnn_, shape_.batch), "compiling its plan");
    const std::vector<int> lengths(static_cast<std::size_t>(shape_.batch), shape_.steps);
    float padding = 0;
    const auto describe = [&](cudnnRNNDataDescriptor_t& data, int width) {
      check(f_.cudnnCreateRNNDataDescriptor(&data), "data");
      check(f_.cudnnSetRNNDataDescriptor(data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, shape_.steps, shape_.batch, width,
                                         lengths.data(), &padding),
            "data");
    };
    describe(x_shape_, shape_.inputs);
    describe(y_shape_, shape_.outputs());
    const int sizes[] = {shape_.sides(), shape_.batch, shape_.hidden};
    const int strides[] = {shape_.batch * shape_.hidden, shape_.hidden, 1};
    check(f_.cudnnCreateTensorDescriptor(&state_shape_), "states");
    check(f_.cudnnSetTensorNdDescriptor(state_shape_, type, 3, sizes, strides), "states");
    check(f_.cudnnGetRNNTempSpaceSizes(handle_, rnn_, mode(), x_shape_, &work_bytes_, &reserve_bytes_), "workspace");
    check(f_.cudnnGetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes_), "weights");
    const auto element = static_cast<std::size_t>(bytes_of(shape_.precision));
    const std::size_t rows = static_cast<std::size_t>(shape_.steps) * static_cast<std::size_t>(shape_.batch) * element;
    const auto take = [&](std::size_t bytes) {
      memory_.push_back(gpu_.allocate(bytes));
      gpu_.fill(memory_.back(), 0, bytes);
      return memory_.back();
    };
    x_ = take(rows * static_cast<std::size_t>(shape_.inputs));
    y_ = take(rows * static_cast<std::size_t>(shape_.outputs()));
    work_ = take(work_bytes_);
    reserve_ = take(reserve_bytes_);
    weights_ = take(weight_bytes_);
    if (!shape_.training) return;
    dx_ = take(rows * static_cast<std::size_t>(shape_.inputs));
    dy_ = take(rows * static_cast<std::size_t>(shape_.outputs()));
    weight_gradients_ = take(weight_bytes_);
  }

  // The matrix and bias of one of cuDNN's linear layers from those of one gate of ours.
  void place(int side, int layer, const std::vector<float>& matrix, int columns, int gate, const std::vector<float>& bias, int bias_gate) {
    cudnnTensorDescriptor_t matrix_shape = nullptr;
    cudnnTensorDescriptor_t bias_shape = nullptr;
    void* matrix_at = nullptr;
    void* bias_at = nullptr;
    check(f_.cudnnCreateTensorDescriptor(&matrix_shape), "weights");
    check(f_.cudnnCreateTensorDescriptor(&bias_shape), "weights");
    check(f_.cudnnGetRNNWeightParams(handle_, rnn_, side, weight_bytes_, weights_, layer, matrix_shape, &matrix_at, bias_shape, &bias_at),
          "weights");
    const auto put = [&](void* to, const float* from, std::size_t count) {
      if (to == nullptr || count == 0) return;
      auto* const staged = static_cast<float*>(gpu_.allocate(count * sizeof(float)));
      gpu_.copy_to(staged, from, count * sizeof(float));
      gpu_.change_format(staged, to, shape_.precision, static_cast<long long>(count));
      gpu_.finish();
      gpu_.release(staged);
    };
    const auto hidden = static_cast<std::size_t>(shape_.hidden);
    put(matrix_at, matrix.data() + static_cast<std::size_t>(gate) * hidden * static_cast<std::size_t>(columns),
        hidden * static_cast<std::size_t>(columns));
    if (!bias.empty()) put(bias_at, bias.data() + static_cast<std::size_t>(bias_gate) * hidden, hidden);
    f_.cudnnDestroyTensorDescriptor(matrix_shape);
    f_.cudnnDestroyTensorDescriptor(bias_shape);
  }

  void release() {
    for (void* memory : memory_) gpu_.release(memory);
    if (state_shape_ != nullptr) f_.cudnnDestroyTensorDescriptor(state_shape_);
    if (x_shape_ != nullptr) f_.cudnnDestroyRNNDataDescriptor(x_shape_);
    if (y_shape_ != nullptr) f_.cudnnDestroyRNNDataDescriptor(y_shape_);
    if (rnn_ != nullptr) f_.cudnnDestroyRNNDescriptor(rnn_);
    if (dropout_ != nullptr) f_.cudnnDestroyDropoutDescriptor(dropout_);
  }

  const Functions& f_;
  cudnnHandle_t handle_;
  CudaMachine& gpu_;
  RnnShape shape_;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  cudnnRNNDescriptor_t rnn_ = nullptr;
  cudnnRNNDataDescriptor_t x_shape_ = nullptr, y_shape_ = nullptr;
  cudnnTensorDescriptor_t state_shape_ = nullptr;
  std::size_t work_bytes_ = 0, reserve_bytes_ = 0, weight_bytes_ = 0;
  std::vector<void*> memory_;
  void *x_ = nullptr, *y_ = nullptr, *dx_ = nullptr, *dy_ = nullptr, *work_ = nullptr, *reserve_ = nullptr, *weights_ = nullptr,
       *weight_gradients_ = nullptr;
};

class LoadedPeer : public CudnnPeer {
 public:
  LoadedPeer(CudaMachine& gpu, void* library) : gpu_(gpu), f_{library} {
    if (f_.cudnnRNNForward == nullptr || f_.cudnnCreate == nullptr || f_.cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS)
      throw RnnError(RnnFailure::kMissingPart, "the cuDNN that was found does not start; install cuDNN 9 for this CUDA version");
    f_.cudnnSetStream(handle_, gpu.stream());
  }
  ~LoadedPeer() override { f_.cudnnDestroy(handle_); }

  std::string version() const override { return std::to_string(f_.cudnnGetVersion()); }

  std::unique_ptr<PeerLayer> prepare(const std::string& algorithm, const RnnShape& shape) override {
    const std::vector<std::string> names = algorithms();
    const cudnnRNNAlgo_t values[] = {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                                     CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != algorithm) continue;
      try {
        return std::make_unique<LoadedLayer>(f_, handle_, gpu_, values[i], shape);
      } catch (const RnnError& error) {
        refusal_ = error.what();
        return nullptr;
      }
    }
    refusal_ = "cuDNN has no algorithm \"" + algorithm + "\"";
    return nullptr;
  }

 private:
  CudaMachine& gpu_;
  Functions f_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<CudnnPeer> load_cudnn(CudaMachine& gpu) {
  void* const library = load_library({"libcudnn.so.9", "libcudnn.so"});
  return library == nullptr ? nullptr : std::make_unique<LoadedPeer>(gpu, library);
}
#else
std::unique_ptr<CudnnPeer> load_cudnn(CudaMachine&) { return nullptr; }
#endif

}  // namespace millrace::rnn
