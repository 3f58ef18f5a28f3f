// Recurrent layers on a real GPU against double precision; skipped without one. And what a program says that finds none.
#include <cstdlib>

#include "gpu/rnn/cuda/cuda_machine.h"
#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/layer_case.h"

namespace millrace::rnn {
namespace {

void check(CudaMachine& gpu, const RnnShape& shape, double output_tolerance, double gradient_tolerance, bool first_state) {
  const LayerCase one(shape, 7, first_state);
  const std::string name = std::string(name_of(shape.recurrence)) + " " + std::string(name_of(shape.precision)) + ", hidden " +
                           std::to_string(shape.hidden) + ", batch " + std::to_string(shape.batch);
  std::vector<std::pair<bool, std::optional<Layout>>> layouts = {{false, std::nullopt}};
  for (const bool backward : {false, true})
    for (const Layout& layout :
         ranked_layouts(gpu.kernels(), gpu.limits(),
                        {shape.recurrence, backward, shape.precision, shape.hidden, shape.batch, shape.sides()}, titan_v()))
      layouts.emplace_back(backward, layout);
  for (const auto& [backward, layout] : layouts) {
    const std::string how = name + ", " + (layout ? name_of(*layout) : "single steps");
    try {
      const Differences found =
          one.run(gpu, [&, backward = backward, layout = layout](RnnLayer& layer) { layer.use_layout(backward, layout); });
      expect(found.output <= output_tolerance, how + ": outputs off by " + std::to_string(found.output));
      expect(found.gradients <= gradient_tolerance, how + ": gradients off by " + std::to_string(found.gradients));
    } catch (const RnnError& error) {
      expect(false, how + ": " + error.what());
    }
  }
}

void layers(CudaMachine& gpu) {
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru, Recurrence::kCanonicalGru, Recurrence::kTanh, Recurrence::kRelu})
    for (const auto& [hidden, batch] : {std::pair(33, 3), std::pair(64, 1), std::pair(130, 9)}) {
      RnnShape shape{.recurrence = recurrence,
                     .inputs = 17,
                     .hidden = hidden,
                     .bidirectional = batch == 3,
                     .batch = batch,
                     .steps = 7,
                     .training = true};
      check(gpu, shape, 1e-5, 1e-4, true);
      const double kinks = recurrence == Recurrence::kRelu ? 5 : 1;  // each is either way within rounding
      shape.precision = Precision::kHalf;
      check(gpu, shape, 5e-3, kinks * 1e-2, false);
      shape.precision = Precision::kBFloat16;
      check(gpu, shape, 5e-2, kinks * 1e-1, false);
    }
  check(gpu, {.inputs = 9, .hidden = 40, .projection = 12, .batch = 3, .steps = 5, .training = true}, 1e-5, 1e-4, false);
}

// More memory than any GPU has, by name.
void too_much(CudaMachine& gpu) {
  try {
    gpu.allocate(std::size_t{1} << 50U);
    expect(false, "a pebibyte must be refused");
  } catch (const RnnError& error) {
    expect(error.kind() == RnnFailure::kOutOfMemory, error.what());
  }
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  std::unique_ptr<CudaMachine> gpu;
  try {
    gpu = cuda_machine(0);
  } catch (const RnnError& error) {
    if (error.kind() != RnnFailure::kNoGpu || std::string(error.what()).find("run on a machine with") == std::string::npos) {
      std::printf("FAILED: %s\n", error.what());
      return 1;
    }
    return skip(error.what());
  }
  layers(*gpu);
  too_much(*gpu);
  return report(("recurrent layers on " + gpu->name()).c_str());
}
