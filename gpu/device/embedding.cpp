// Embedding: rows of the weight, looked up on the GPU; as gradients, each token's errors are added up in the order of samples and steps.
// The host reads the tokens back, to check them and to list each one's places: a call waits until they have arrived on the GPU, not for
// what is calculated there.
#include <algorithm>
#include <limits>
#include <map>

#include "core/base/index.h"
#include "core/device/sequence.h"
#include "core/device/token.h"
#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

class EmbeddingKernel final : public GpuKernel {
 public:
  EmbeddingKernel(const SharedContext& context, const KernelSpec& spec, const Embedding& operation)
      : GpuKernel(context, spec), operation_(operation), steps_(spec.inputs[0].height) {
    MILLRACE_CHECK(samples() * steps_ <= std::numeric_limits<int32_t>::max(), "{}: {} samples of {} steps", spec.layer, samples(), steps_);
  }

  bool streams() const override { return !spec().activation; }
  std::string implementation() const override { return "rows looked up, tokens checked by the host"; }

 protected:
  std::vector<Shape> parameter_shapes() const override { return {{operation_.vocabulary, operation_.dimension, 1}}; }

  void run_forward(const ForwardArguments& arguments) override {
    const StepRange steps = chunk_of(*arguments.batch, steps_);
    const GpuTensor& tokens = own(arguments.inputs[0]);
    const GpuTensor& rows = own(arguments.parameters[0]);
    const GpuTensor& output = own(arguments.output);
    for_each_token(tokens, *arguments.batch, steps, [](int64_t, int64_t) {});
    const int32_t* const valid = valid_.write(context(), spec(), *arguments.batch);
    context().run(LookUp{.rows = rows.data(),
                         .tokens = tokens.data(),
                         .output = output.data(),
                         .time = {.valid = valid, .samples = samples(), .steps = steps_},
                         .channels = operation_.dimension,
                         .begin = steps.begin,
                         .end = steps.end,
                         .elements = steps.size() * samples() * operation_.dimension},
                  {&rows.buffer(), &tokens.buffer(), valid_.buffer()}, {&output.buffer()});
  }

  // Tokens have no error.
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] != nullptr && arguments.adds[0] == 0) context().zero(own(arguments.input_errors[0]).buffer());
  }

  void run_gradient(const GradientArguments& arguments) override {
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& gradient = own(arguments.gradients[0]);
    if (!arguments.adds) context().zero(gradient.buffer());
    std::map<int64_t, std::vector<int32_t>> places;  // by token
    for_each_token(own(arguments.inputs[0]), *arguments.batch, {0, steps_},
                   [&](int64_t token, int64_t place) { places[token].push_back(static_cast<int32_t>(place)); });
    if (places.empty()) return;
    // The tokens, where each one's places begin and the last one's end, and the places.
    const size_t count = places.size();
    numbers_.assign(2 * count + 1, 0);
    for (size_t k = 0; const auto& [token, at] : places) {
      numbers_[k] = static_cast<int32_t>(token);
      numbers_[count + k + 1] = numbers_[count + k] + static_cast<int32_t>(at.size());
      numbers_.insert(numbers_.end(), at.begin(), at.end());
      ++k;
    }
    const int32_t* const numbers = listed_.write(context(), std::span<const int32_t>(numbers_), "layer \"" + spec().layer + "\": tokens");
    context().run(AddAtTokens{.tokens = numbers,
                              .first = numbers + count,
                              .places = numbers + 2 * count + 1,
                              .output_error = error.data(),
                              .gradient = gradient.data(),
                              .channels = operation_.dimension,
                              .steps = steps_,
                              .elements = static_cast<int64_t>(count) * operation_.dimension},
                  {&error.buffer(), listed_.buffer()}, {&gradient.buffer()});
  }

 private:
  // visit(token, sample * steps + step), of the steps that count.
  template <typename Visit>
  void for_each_token(const GpuTensor& tokens, const MicroBatch& batch, StepRange steps, Visit visit) {
    values_.resize(to_size(samples() * steps_));
    const size_t bytes = values_.size() * sizeof(float);
    context().download(tokens.buffer(), {.pitch = bytes, .width = bytes}, [&](size_t begin, const std::byte* from, size_t size) {
      std::copy_n(from, size, reinterpret_cast<std::byte*>(values_.data()) + begin);
    });
    for (int64_t n = 0; n < samples(); ++n)
      for (int64_t t = steps.begin; t < std::min(steps.end, valid_steps(spec(), batch, n)); ++t) {
        const int64_t place = n * steps_ + t;
        visit(token_of(item(values_, place), operation_.vocabulary, {spec().layer, n, t}), place);
      }
  }

  Embedding operation_;
  int64_t steps_;
  ValidRows valid_;
  UploadedNumbers listed_;
  std::vector<float> values_;
  std::vector<int32_t> numbers_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Embedding& operation) {
  return std::make_unique<EmbeddingKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
