// What a GPU does for the device that drives it (gpu_device.h): memory, queues of work, events, and the calculations themselves.
// The narrow side of a device kind: everything above it is plain C++ and is tested without a GPU.
//
//   engine.copy(Queue::kUpload, {.from = pinned, .to = memory, .width = bytes});
//   engine.record(event, Queue::kUpload);
//   engine.wait(Queue::kCompute, event);             // what is queued there from now on comes after the copy
//   engine.gemm({...});                              // calculations go to Queue::kCompute
//
// Three queues run side by side, each in order; nothing orders them but events, and the caller alone sees to that. Everything is
// asynchronous except what says that it waits. Work borrows the memory it names until it is done. The same work on the same numbers
// gives the same bits: implementations leave out algorithms that do not promise it.
// Failures are Failure (failure.h).
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/device/element_work.h"
#include "gpu/device/failure.h"
#include "gpu/device/recurrence.h"
#include "gpu/device/reduction_work.h"

namespace millrace::gpu {

enum class Queue : uint8_t { kCompute, kUpload, kDownload };
inline constexpr size_t kQueues = 3;

struct Facts {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "9.0"
  std::string libraries;     // "CUDA 13.0, cuDNN 9.19.0, cuBLAS 13.1.0"
  std::string id = {};       // of this very GPU: "GPU-8f6a..."
  int number = 0;            // as the driver counts here
};

struct MemoryState {
  size_t free = 0;
  size_t total = 0;
};

// Rows of `width` bytes, each `pitch` bytes behind the one before.
struct Copy {
  const void* from = nullptr;
  void* to = nullptr;
  size_t width = 0;
  size_t rows = 1;
  size_t from_pitch = 0;
  size_t to_pitch = 0;
};

struct ConvolutionGeometry {
  int64_t samples = 1;
  int64_t inputs = 1, height = 1, width = 1;
  int64_t outputs = 1, output_height = 1, output_width = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;

  int64_t input_elements() const { return samples * inputs * height * width; }
  int64_t output_elements() const { return samples * outputs * output_height * output_width; }
  int64_t weight_elements() const { return outputs * (inputs / groups) * kernel_h * kernel_w; }
};

enum class ConvolutionPhase : uint8_t { kForward, kInputError, kWeightGradient };

// What a convolution was found to run best by: a number that means something to the engine alone.
struct ConvolutionChoice {
  int64_t algorithm = 0;
  size_t workspace = 0;
  std::string name;
  bool channels_last = false;  // how it wants its operands, in a narrow precision
};

// result (+)= the phase's sums. All operands in fp32; in sixteen bits when the precision is narrow, and then nothing is added, and
// operands may lie with channels last: [sample][row][column][channel], weights [output][row][column][input].
//   forward         first x, second w, result y
//   input error     first y's error, second w, result x's error
//   weight gradient first x, second y's error, result w's gradient
struct Convolution {
  ConvolutionGeometry geometry;
  ConvolutionPhase phase = ConvolutionPhase::kForward;
  Precision precision = Precision::kFloat32;
  int64_t algorithm = 0;
  bool channels_last = false;
  const void* first = nullptr;
  const void* second = nullptr;
  void* result = nullptr;
  bool adds = false;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// result[m][n] (+)= a[m][k] * b[k][n], rows one after the other; a transposed factor lies as a[k][m] or b[n][k]. `batch` products,
// each factor `step` elements behind the one before. Factors in sixteen bits when the precision is narrow; the result is fp32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  const void* a = nullptr;
  const void* b = nullptr;
  float* result = nullptr;
  int64_t row_a = 0;  // elements from one row of a, as it lies, to the next; 0: no more than it has
  int64_t row_b = 0, row_result = 0;
  int64_t batch = 1;
  int64_t step_a = 0, step_b = 0, step_result = 0;
  bool adds = false;
  Precision precision = Precision::kFloat32;
};

class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual Facts facts() const = 0;
  virtual MemoryState memory() = 0;
  // What others that know this machinery take a queue for, a cudaStream_t; null: nobody can.
  virtual void* native(Queue queue) { return static_cast<void>(queue), nullptr; }
  // Null when there is not enough. Contents are undefined.
  virtual void* allocate(size_t bytes) = 0;
  // Nothing queued may name it any more.
  virtual void release(void* memory) noexcept = 0;
  // Of the host, where copies run at full speed and beside everything else.
  virtual std::byte* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;

  // An event stands for what was in a queue when it was last recorded. It lives as long as the engine.
  virtual int make_event() = 0;
  virtual void record(int event, Queue queue) = 0;
  virtual void wait(Queue queue, int event) = 0;
  virtual void wait_here(int event) = 0;  // blocks
  virtual void synchronize() = 0;         // blocks until all queues are empty

  virtual void copy(Queue queue, const Copy& copy) = 0;  // kUpload and kDownload: one side is pinned; kCompute: neither
  virtual void fill_zero(void* memory, size_t bytes) = 0;

  // Fails with kBroken when no deterministic algorithm fits into the workspace. `measure`: by trying them all; it waits.
  virtual ConvolutionChoice choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision, size_t most_workspace,
                                   bool measure) = 0;
  virtual void convolution(const Convolution& call) = 0;
  virtual void gemm(const Gemm& call) = 0;
  // Decided by the geometry and the GPU alone, and kept; takes the memory that goes with it.
  virtual RecurrenceChoice choose(const RecurrenceGeometry& geometry) = 0;
  // Of a geometry that was chosen for. What hangs is told by the next call that waits.
  virtual void recurrence(const Recurrence& call) = 0;
  virtual void run(const ElementWork& work) = 0;
  virtual void run(const ReductionWork& work) = 0;

  // Calculations, but recurrences, queued between the two are noted and not run, to be run together, in that order, as often as replay()
  // is called. False, or below 0: this engine cannot, or not this work; then nothing was noted. Nothing else may be called between them; a
  // call that fails leaves end_capture() to be called. A graph lives as long as the engine.
  virtual bool begin_capture() { return false; }
  virtual int end_capture() { return -1; }
  virtual void replay(int graph) { throw Failure(Failure::Kind::kBroken, "there is no graph " + std::to_string(graph)); }
};

}  // namespace millrace::gpu
