// Computes one layer, or the blocks one device has of it, for one micro-batch: kernel by kernel, nothing fused, each on
// tensors made for the call from what the device remembers. Internal to core/reference.
//
//   LayerRunner layers(context, parameters);
//   layers.forward_blocks(device, head, memory, action);    // sum += block(input) for each block
//   layers.finish(head, memory, action);                    // output = sum + bias
//   layers.apply(node, memory, action);                     // a layer behind the sum, or one without blocks
//
// Owns kernels (made when first used) and running statistics; borrows context and parameters. Used by the interpreter
// only.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/plan/schedule.h"
#include "core/plan/segment_program.h"
#include "core/reference/interpreter_context.h"
#include "core/reference/interpreter_parameters.h"

namespace millrace::interpreting {

class LayerRunner {
 public:
  LayerRunner(const Context& context, ParameterStore& parameters) : context_(context), parameters_(parameters) {}

  void forward_blocks(int64_t device, int64_t node, Memory& memory, const Action& action);
  void blocks_back(int64_t device, int64_t node, Memory& memory, const Action& action);
  void blocks_gradient(int64_t device, int64_t node, Memory& memory, const Action& action);

  // Of a recurrent layer divided by kind: x W where it is made, and the steps on the last device.
  void products(int64_t device, int64_t node, Memory& memory, const Action& action);
  void products_back(int64_t device, int64_t node, Memory& memory, const Action& action);
  void products_gradient(int64_t device, int64_t node, Memory& memory, const Action& action);
  void steps(int64_t node, Memory& memory, const Action& action);
  void steps_back(int64_t node, Memory& memory, const Action& action);
  void steps_gradient(int64_t node, Memory& memory, const Action& action);

  void finish(int64_t node, Memory& memory, const Action& action);
  void finish_back(int64_t node, Memory& memory);
  void finish_gradient(int64_t node, Memory& memory, const Action& action);

  // What the loss finds out is added to `score`.
  void apply(int64_t node, Memory& memory, const Action& action, Score& score);
  void apply_back(int64_t node, Memory& memory, const Action& action);
  void apply_gradient(int64_t node, Memory& memory, const Action& action);

  // U: what the batch norms of this device gathered becomes the statistics of the next version.
  void commit_statistics(int64_t device, int64_t mini_batch);

  // "running_mean" and the like, which live here and not at homes.
  Values statistic(int64_t node, std::string_view tensor) const;

 private:
  using KernelKey = std::tuple<StepKind, int64_t, int64_t, int64_t, int64_t, int64_t>;

  Kernel& kernel_for(const Step& like, std::span<const Shape> inputs, const Shape& output);
  Kernel& block_kernel(int64_t node, const Block& block);
  Kernel& layer_kernel(StepKind kind, int64_t node);
  Kernel& product_kernel(int64_t node, int64_t direction, const Block& block);
  std::vector<TensorPointer> steps_parameters(Kernel& kernel, int64_t node, int64_t version) const;
  template <typename Visit>
  void for_each_product(int64_t device, int64_t node, bool reverse, Visit visit) const;
  std::vector<TensorPointer> load_parameters(Kernel& kernel, const std::vector<Values>& values) const;
  std::vector<TensorPointer> layer_parameters(Kernel& kernel, int64_t node, int64_t version) const;
  std::vector<TensorPointer> layer_inputs(int64_t node, Memory& memory) const;
  std::vector<TensorPointer>& state_of(int64_t node, Kernel& kernel);
  bool gathers(int64_t node) const;
  std::vector<Values> statistics_in(const std::vector<TensorPointer>& state) const;
  void use_statistics(int64_t node, int64_t version);
  std::vector<Values> gradients_of(Kernel& kernel, const std::vector<const Tensor*>& inputs, const Tensor& output_error,
                                   const std::vector<TensorPointer>& state, Tensor* keep, const MicroBatch& batch) const;
  template <typename Visit>
  void for_each_block(int64_t device, int64_t node, bool reverse, Visit visit) const;
  TensorPointer tensor_from(const Patch& patch, const ChannelRange& channels, std::string_view what) const;
  TensorPointer make_tensor(const Shape& shape) const;
  Shape block_output(int64_t node, const Block& block) const;
  // What one block computes, of a product of a recurrent layer or of any other layer; sums and errors are put where they belong.
  void forward_block(Kernel& kernel, int64_t node, const Block& block, const Values& weight, Memory& memory, const MicroBatch& batch);
  void block_back(Kernel& kernel, int64_t node, const Block& block, const Values& weight, Memory& memory, const MicroBatch& batch);
  Values block_gradient(Kernel& kernel, int64_t node, const Block& block, Memory& memory, const MicroBatch& batch);
  bool has_bias(int64_t node) const;

  const Context& context_;
  ParameterStore& parameters_;
  std::map<KernelKey, std::unique_ptr<Kernel>> kernels_;
  std::map<int64_t, std::vector<TensorPointer>> states_;  // by node
  // Of batch norms that gather them, every version: by node and version.
  std::map<std::pair<int64_t, int64_t>, std::vector<Values>> statistics_;
};

}  // namespace millrace::interpreting
