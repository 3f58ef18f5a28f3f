#include "gpu/rnn/cuda/cudnn_library.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>

#include "gpu/rnn/cuda/cublas.h"
#include "gpu/rnn/dispatch.h"
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

class CudnnLayer : public LibraryLayer {
 public:
  CudnnLayer(const Functions& f, cudnnHandle_t handle, CudaMachine& gpu, cudnnRNNAlgo_t algorithm, const RnnShape& shape)
      : f_(f), handle_(handle), gpu_(gpu), shape_(shape) {
    try {
      prepare(algorithm);
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudnnLayer() override { release(); }

  void set_weights(int side, const Weights& weights) override {
    place_weights(shape_, places_, side, weights, space_);
    auto* const staged = static_cast<float*>(gpu_.allocate(space_.size() * sizeof(float)));
    gpu_.copy_to(staged, space_.data(), space_.size() * sizeof(float));
    gpu_.change_format(staged, weights_, shape_.precision, static_cast<long long>(space_.size()));
    gpu_.finish();
    gpu_.release(staged);
  }

  void set_first_state(int side, const void* state, const float* cell) override {
    const std::size_t bytes = state_count() * element();
    const auto put = [&](void*& first, const void* values) {
      if (first == nullptr) first = take(static_cast<std::size_t>(shape_.sides()) * bytes);
      gpu_.copy_to(static_cast<unsigned char*>(first) + static_cast<std::size_t>(side) * bytes, values, bytes);
    };
    if (state != nullptr) put(first_state_, state);
    if (cell != nullptr)
      with_format(shape_.precision, [&]<class S>(S) {
        std::vector<S> values(state_count());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_float<S>(cell[i]);
        put(first_cell_, values.data());
      });
  }

  void forward(const void* input, void* output) override {
    check(f_.cudnnRNNForward(handle_, rnn_, mode(), nullptr, x_shape_, input, y_shape_, output, state_shape_, first_state_, nullptr,
                             state_shape_, first_cell_, nullptr, weight_bytes_, weights_, work_bytes_, work_, reserve_bytes_, reserve_),
          "forward");
  }
  void backward(const void* input, const void* output, const void* output_gradient, void* input_gradient) override {
    gpu_.fill(weight_gradients_, 0, weight_bytes_);
    check(f_.cudnnRNNBackwardData_v8(handle_, rnn_, nullptr, y_shape_, output, output_gradient, x_shape_, input_gradient, state_shape_,
                                     first_state_, nullptr, first_state_gradient_, state_shape_, first_cell_, nullptr, first_cell_gradient_,
                                     weight_bytes_, weights_, work_bytes_, work_, reserve_bytes_, reserve_),
          "backward, data");
    check(f_.cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, nullptr, x_shape_, input, state_shape_, first_state_, y_shape_,
                                        output, weight_bytes_, weight_gradients_, work_bytes_, work_, reserve_bytes_, reserve_),
          "backward, weights");
  }

  Weights gradients(int side) override { return weights_in(shape_, places_, side, fetch(weight_gradients_, 0, weight_bytes_ / element())); }
  std::vector<float> first_state_gradient(int side) override {
    return fetch(first_state_gradient_, static_cast<std::size_t>(side) * state_count(), state_count());
  }
  std::vector<float> first_cell_gradient(int side) override {
    return fetch(first_cell_gradient_, static_cast<std::size_t>(side) * state_count(), state_count());
  }

 private:
  cudnnForwardMode_t mode() const { return shape_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }

  std::size_t element() const { return static_cast<std::size_t>(bytes_of(shape_.precision)); }
  // Of one side.
  std::size_t state_count() const { return static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape_.hidden); }

  // Memory of zeros that lives as long as the layer.
  void* take(std::size_t bytes) {
    memory_.push_back(gpu_.allocate(bytes));
    gpu_.fill(memory_.back(), 0, bytes);
    return memory_.back();
  }

  std::vector<float> fetch(const void* from, std::size_t first, std::size_t count) {
    gpu_.finish();
    std::vector<float> values(count);
    with_format(shape_.precision, [&]<class S>(S) {
      std::vector<S> raw(count);
      gpu_.copy_from(raw.data(), static_cast<const S*>(from) + first, count * sizeof(S));
      std::transform(raw.begin(), raw.end(), values.begin(), [](S value) { return to_float(value); });
    });
    return values;
  }

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
    if (shape_.projection > 0)
      throw RnnError(RnnFailure::kUnsupportedSize, "recurrent projections are not passed on to cuDNN; our kernels have them");
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
    weights_ = take(weight_bytes_);
    work_ = take(work_bytes_);
    reserve_ = take(reserve_bytes_);
    space_.assign(weight_bytes_ / element(), 0.0F);
    for (int side = 0; side < shape_.sides(); ++side)
      for (int layer = 0; layer < 2 * shape_.gates(); ++layer) places_.push_back(place_of(side, layer));
    if (!shape_.training) return;
    weight_gradients_ = take(weight_bytes_);
    first_state_gradient_ = take(static_cast<std::size_t>(shape_.sides()) * state_count() * element());
    if (shape_.recurrence == Recurrence::kLstm)
      first_cell_gradient_ = take(static_cast<std::size_t>(shape_.sides()) * state_count() * element());
  }

  // Where cuDNN keeps one of its linear layers.
  LinearPlace place_of(int side, int layer) {
    cudnnTensorDescriptor_t matrix_shape = nullptr;
    cudnnTensorDescriptor_t bias_shape = nullptr;
    void* matrix = nullptr;
    void* bias = nullptr;
    check(f_.cudnnCreateTensorDescriptor(&matrix_shape), "weights");
    check(f_.cudnnCreateTensorDescriptor(&bias_shape), "weights");
    check(f_.cudnnGetRNNWeightParams(handle_, rnn_, side, weight_bytes_, weights_, layer, matrix_shape, &matrix, bias_shape, &bias),
          "weights");
    f_.cudnnDestroyTensorDescriptor(matrix_shape);
    f_.cudnnDestroyTensorDescriptor(bias_shape);
    const auto offset = [&](const void* at) {
      if (at == nullptr) return -1LL;
      return (static_cast<const unsigned char*>(at) - static_cast<const unsigned char*>(weights_)) / static_cast<long long>(element());
    };
    return {side, layer, offset(matrix), offset(bias)};
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
  std::vector<LinearPlace> places_;
  std::vector<float> space_;  // both sides' weights, as they were set
  void *work_ = nullptr, *reserve_ = nullptr, *weights_ = nullptr, *weight_gradients_ = nullptr;
  void *first_state_ = nullptr, *first_cell_ = nullptr, *first_state_gradient_ = nullptr, *first_cell_gradient_ = nullptr;
};

constexpr std::pair<const char*, cudnnRNNAlgo_t> kAlgorithms[] = {{"standard", CUDNN_RNN_ALGO_STANDARD},
                                                                  {"persist static", CUDNN_RNN_ALGO_PERSIST_STATIC},
                                                                  {"persist dynamic", CUDNN_RNN_ALGO_PERSIST_DYNAMIC},
                                                                  {"persist static small h", CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H}};

class Cudnn : public Library {
 public:
  Cudnn(CudaMachine& gpu, void* library) : gpu_(gpu), f_{library} {
    if (f_.cudnnRNNForward == nullptr || f_.cudnnCreate == nullptr || f_.cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS)
      throw RnnError(RnnFailure::kMissingPart,
                     "the cuDNN that was found does not start; install cuDNN " + std::to_string(CUDNN_MAJOR) + " for this CUDA version");
    const std::size_t found = f_.cudnnGetVersion() / (f_.cudnnGetVersion() >= 90000 ? 10000 : 1000);
    if (found != CUDNN_MAJOR || f_.cudnnSetStream(handle_, gpu.stream()) != CUDNN_STATUS_SUCCESS) {
      f_.cudnnDestroy(handle_);
      throw RnnError(RnnFailure::kMissingPart, found != CUDNN_MAJOR
                                                   ? "cuDNN " + std::to_string(found) + " was found, and this was built for cuDNN " +
                                                         std::to_string(CUDNN_MAJOR) + "; put that one's folder first into LD_LIBRARY_PATH"
                                                   : std::string("cuDNN refuses this GPU's stream; free the GPU and run again"));
    }
  }
  ~Cudnn() override { f_.cudnnDestroy(handle_); }

  std::string name() const override { return "cuDNN " + std::to_string(f_.cudnnGetVersion()); }
  std::vector<std::string> algorithms() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : kAlgorithms) names.emplace_back(name);
    return names;
  }
  std::unique_ptr<LibraryLayer> prepare(const std::string& algorithm, const RnnShape& shape) override {
    for (const auto& [name, value] : kAlgorithms)
      if (algorithm == name) return std::make_unique<CudnnLayer>(f_, handle_, gpu_, value, shape);
    throw RnnError(RnnFailure::kUnsupportedSize, "cuDNN has no algorithm \"" + algorithm + "\"");
  }

 private:
  CudaMachine& gpu_;
  Functions f_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Library> load_cudnn(CudaMachine& gpu) {
  void* const library = load_library("cudnn", CUDNN_MAJOR);
  return library == nullptr ? nullptr : std::make_unique<Cudnn>(gpu, library);
}
#else
std::unique_ptr<Library> load_cudnn(CudaMachine&) { return nullptr; }
#endif

}  // namespace millrace::rnn
