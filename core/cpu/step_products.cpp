// The products of a recurrent layer with its inputs where another device makes its steps: the same product for every step of every sample,
// of all steps at once or of a part in time. F and E multiply with the packed weight (packed_product.h), as the undivided layer does, so
// a sum is the same bits however many steps are asked for; gradients are one product over all rows (gradient_product.h).
#include <array>

#include "core/cpu/gradient_product.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/packed_product.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

namespace {

class StepProducts final : public CpuKernel {
 public:
  StepProducts(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec),
        steps_(spec.output.height),
        inputs_(spec.inputs[0].channels),
        outputs_(spec.output.channels),
        weight_(inputs_, {{outputs_, 0}}, engine->vector_length),
        gradient_(engine->vector_length, outputs_, inputs_) {
    ScratchPlan plan;
    packed_ = plan.add(gradient_.scratch_bytes());
    reserve(plan);
    if (spec.input_error_needed) back_ = PackedMatrix(outputs_, {{inputs_, 0}}, engine->vector_length);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({outputs_, inputs_, 1}));
    return parameters;
  }
  bool streams() const override { return true; }
  std::string implementation() const override { return "packed products"; }

  void parameters_changed(std::span<const Tensor* const> parameters) override {
    const ComputeScope scope(threads());
    const float* const w = own(parameters[0]).data();
    run_team(threads(), [&](const Team& team) {
      weight_.pack(w, inputs_, 1, weight_.share(team.thread, team.threads));
      if (spec().input_error_needed) back_.pack(w, 1, inputs_, back_.share(team.thread, team.threads));
    });
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    multiply(*arguments.batch, weight_, own(arguments.inputs[0]).data(), inputs_, own(arguments.output).data(), outputs_,
             spec().adds_to_output);
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    multiply(*arguments.batch, back_, own(arguments.output_error).data(), outputs_, own(arguments.input_errors[0]).data(), inputs_,
             arguments.adds[0] != 0);
  }
  void run_gradient(const GradientArguments& arguments) override {
    const GradientProduct::Right inputs{.from = {own(arguments.inputs[0]).data(), inputs_},
                                        .columns = inputs_,
                                        .left = outputs_,
                                        .to = own(arguments.gradients[0]).data(),
                                        .stride = inputs_};
    gradient_.run(threads(), {own(arguments.output_error).data(), outputs_}, samples() * steps_, std::array{inputs}, arguments.adds,
                  scratch<float>(packed_));
  }

 private:
  // Rows of those steps, sample by sample.
  void multiply(const MicroBatch& batch, const PackedMatrix& w, const float* from, int64_t from_width, float* to, int64_t to_width,
                bool adds) const {
    const StepRange steps = chunk_of(batch, steps_);
    if (steps.size() == 0) return;
    const auto rows = [&](int64_t width) { return RowSteps{steps.size(), steps_ * width, width}; };
    const ConstRows a{from + steps.begin * from_width, rows(from_width)};
    const Rows c{to + steps.begin * to_width, rows(to_width)};
    run_team(threads(), [&](const Team& team) {
      multiply_packed(a, samples() * steps.size(), w, w.share(team.thread, team.threads), c, adds ? Into::kAdd : Into::kOverwrite);
    });
  }

  int64_t steps_, inputs_, outputs_;
  PackedMatrix weight_, back_;
  GradientProduct gradient_;
  size_t packed_ = 0;  // scratch
};

}  // namespace

std::unique_ptr<Kernel> make_step_products(const SharedEngine& engine, const KernelSpec& spec) {
  return std::make_unique<StepProducts>(engine, spec);
}

}  // namespace millrace::cpu
