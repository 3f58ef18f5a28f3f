#include "fpga/xrt/device/xrt_chain_engine.h"

#include <utility>
#include <vector>

#include "fpga/xrt/device/held_buffers.h"
#include "fpga/xrt/protocol/steps_block.h"

namespace millrace::xrt {

namespace {

class BoardSteps final : public ChainEngine {
 public:
  BoardSteps(DeviceLink& link, std::string description) : link_(link), description_(std::move(description)), buffers_(link) {}

  std::vector<int16_t> forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run, RecurrentState& state,
                               FixedKept& kept, RecurrentCounters& counters) override {
    const FixedRecurrent& layer = of.layer;
    const StepsBlock block = block_of(of, run);
    const StepsSizes sizes = sizes_of(layer, block);
    PhaseRegisters registers = registers_for(PhaseCode::kSteps, of, block, run);
    registers.pointers[kSecond] = buffers_.holding(
        kSecond,
        (sizes.given_units > 0 ? Parts().add(sums).add(state.hidden).add(kept.units) : Parts().add(sums).add(state.hidden)).bytes());
    registers.pointers[kExtra] = buffers_.holding(kExtra, Parts().add(layer.bias).add(layer.hidden_bias).add(state.cell).bytes());
    const size_t bytes = sizeof(ResultHeader) + sizeof(RecurrentCounters) + sizeof(int32_t) * sizes.of_layer.cells +
                         sizeof(int16_t) * (sizes.of_layer.state + sizes.of_layer.outputs + sizes.units + sizes.records);
    Taken result = made(registers, bytes, "the steps");
    RecurrentCounters counted;
    result.take(counted);
    counters += counted;
    state.cell.resize(sizes.of_layer.cells);
    result.take_all(state.cell);
    result.take_all(state.hidden);
    std::vector<int16_t> h(sizes.of_layer.outputs);
    result.take_all(h);
    kept.units.resize(sizes.units);
    result.take_all(kept.units);
    kept.records.resize(sizes.records / kRecordElements);
    result.take_all(kept.records);
    return h;
  }

  FixedErrors back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                   FixedBackState& state, ArithmeticCounters& counters) override {
    const StepsBlock block = block_of(of, run);
    const StepsSizes sizes = sizes_of(of.layer, block);
    PhaseRegisters registers = registers_for(PhaseCode::kStepsBack, of, block, run);
    registers.pointers[kSecond] =
        buffers_.holding(kSecond, Parts().add(errors).add(state.errors).add(state.carried).add(kept.records).bytes());
    const size_t bytes = sizeof(ResultHeader) + sizeof(ArithmeticCounters) +
                         sizeof(int16_t) * (sizes.taken + sizes.carried + sizes.sums + sizes.candidates + sizes.features);
    Taken result = made(registers, bytes, "the steps back");
    ArithmeticCounters counted;
    result.take(counted);
    counters += counted;
    result.take_all(state.errors);
    result.take_all(state.carried);
    FixedErrors found{std::vector<int16_t>(sizes.sums), std::vector<int16_t>(sizes.candidates), std::vector<int16_t>(sizes.features)};
    result.take_all(found.sums);
    result.take_all(found.candidates);
    result.take_all(found.features);
    return found;
  }

 private:
  PhaseRegisters registers_for(PhaseCode phase, const StepsOfBoard& of, const StepsBlock& block, const RecurrentRun& run) {
    PhaseRegisters registers;
    registers.scalars[kPhase] = static_cast<uint32_t>(phase);
    registers.scalars[kRun] = ++run_;
    std::vector<int64_t> valid;
    for (int64_t stream = 0; stream < run.streams; ++stream) valid.push_back(run.valid_steps(stream));
    registers.pointers[kSource] = buffers_.holding(kSource, Parts().add_one(block).add(valid).bytes());
    registers.pointers[kParameters] =
        buffers_.holding(kParameters, Parts().add(of.layer.hidden_weight).add(of.layer.projection_weight).bytes());
    return registers;
  }
  // Behind its header.
  Taken made(PhaseRegisters& registers, size_t bytes, const char* phase) {
    registers.pointers[kResult] = buffers_.with_room(kResult, bytes);
    link_.run(registers);
    Taken result = buffers_.read(kResult, bytes);
    ResultHeader header;
    result.take(header);
    check_result(header, registers.scalars[kRun], phase, description_);
    return result;
  }

  DeviceLink& link_;
  std::string description_;
  uint32_t run_ = 0;
  HeldBuffers buffers_;
};

}  // namespace

std::unique_ptr<ChainEngine> make_xrt_chain_engine(DeviceLink& link, std::string description) {
  return std::make_unique<BoardSteps>(link, std::move(description));
}

}  // namespace millrace::xrt
