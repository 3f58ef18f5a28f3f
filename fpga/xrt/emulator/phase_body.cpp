#include "fpga/xrt/emulator/phase_body.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/xrt/protocol/recurrence_block.h"
#include "fpga/xrt/protocol/steps_block.h"

namespace millrace::xrt {

namespace {

class FunctionalArithmetic final : public PhaseArithmetic {
 public:
  std::string description() const override { return "functional models of conv_ce and of recurrent layers"; }
  RecurrenceEngine& recurrence() override { return *recurrence_; }
  ChainEngine& chains() override { return *chains_; }
  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters) override {
    return forward_phase(phase, data, counters);
  }
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  ArithmeticCounters& counters) override {
    return error_back_phase(phase, output_error, weight, counters);
  }
  void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters) override {
    gradient_phase(phase, input, output_error, weight, bias, counters);
  }

 private:
  std::unique_ptr<RecurrenceEngine> recurrence_ = make_host_recurrence_engine();
  std::unique_ptr<ChainEngine> chains_ = make_host_chain_engine();
};

// An address that no buffer has.
struct BadAddress {};

// Memory whose ranges are checked for the body.
class Reached {
 public:
  explicit Reached(DeviceMemory& memory) : memory_(memory) {}
  template <typename T>
  std::span<T> of(uint64_t address, uint64_t count) const {
    try {
      return memory_.of<T>(address, count);
    } catch (const Error&) {
      throw BadAddress();
    }
  }
  std::span<uint8_t> at(uint64_t address, uint64_t bytes) const { return of<uint8_t>(address, bytes); }

 private:
  DeviceMemory& memory_;
};

class Body final : public PhaseBody {
 public:
  explicit Body(std::unique_ptr<PhaseArithmetic> arithmetic) : arithmetic_(std::move(arithmetic)) {}
  std::string description() const override { return arithmetic_->description(); }

  void run(const PhaseRegisters& registers, DeviceMemory& device_memory) override {
    const Reached memory(device_memory);
    ResultHeader header{.mark = kIdentity, .run = registers.scalars[kRun], .status = kDone};
    try {
      header.status = phase(registers, memory, header);
    } catch (const BadAddress&) {
      header.status = kBadAddress;
    }
    try {
      std::memcpy(memory.of<uint64_t>(registers.pointers[kResult], sizeof(header) / 8).data(), &header, sizeof(header));
    } catch (const BadAddress&) {  // nowhere to say so; the host misses its result
    }
  }

 private:
  RunStatus phase(const PhaseRegisters& registers, const Reached& memory, ResultHeader& own) {
    PhaseCounters& counters = own.counters;
    const uint32_t flags = registers.scalars[kFlags];
    const auto& at = registers.pointers;
    const uint64_t result = at[kResult] + sizeof(ResultHeader);
    const auto code = static_cast<PhaseCode>(registers.scalars[kPhase]);
    if (code == PhaseCode::kUpdate) return update(registers, memory, own);
    if (code == PhaseCode::kRecurrence) return recurrence(registers, memory);
    if (code == PhaseCode::kSteps || code == PhaseCode::kStepsBack) return steps(registers, memory, code == PhaseCode::kStepsBack);
    if (code != PhaseCode::kForward && code != PhaseCode::kErrorBack && code != PhaseCode::kGradient) return kBadPhase;
    PhaseShape shape;
    try {
      shape = shape_of(registers);
    } catch (const Error&) {
      return kBadShape;
    }
    const size_t inputs = shape.input_elements(), outputs = shape.output_elements(), weights = shape.convolution.weight_elements();
    const auto channels = to_size(shape.convolution.outputs);
    switch (code) {
      case PhaseCode::kForward: {
        const ForwardData data{
            .input = memory.of<int16_t>(at[kSource], inputs),
            .weight = memory.of<int16_t>(at[kParameters], weights),
            .before = (flags & kAdds) != 0 ? memory.of<int16_t>(at[kSecond], outputs) : std::span<int16_t>{},
            .bias = (flags & kBias) != 0 ? memory.of<int16_t>(at[kExtra], channels) : std::span<int16_t>{},
        };
        const auto target = memory.of<int16_t>(result, outputs);
        std::ranges::copy(arithmetic_->forward(shape, data, counters), target.begin());
        return kDone;
      }
      case PhaseCode::kErrorBack: {
        const auto target = memory.of<int16_t>(result, inputs);
        std::ranges::copy(
            error_back_phase(shape, memory.of<int16_t>(at[kSource], outputs), memory.of<int16_t>(at[kParameters], weights), counters.first),
            target.begin());
        return kDone;
      }
      case PhaseCode::kGradient: {
        const auto sums = memory.of<int32_t>(result, weights + ((flags & kBias) != 0 ? channels : 0));
        uint32_t before = kDone;
        if ((flags & kFresh) != 0) {
          std::ranges::fill(sums, 0);
        } else {
          ResultHeader header;
          std::memcpy(&header, memory.at(at[kResult], sizeof(header)).data(), sizeof(header));
          counters = header.counters;
          before = header.status;
        }
        arithmetic_->add_gradient(shape, memory.of<int16_t>(at[kSource], inputs), memory.of<int16_t>(at[kSecond], outputs),
                                  sums.first(weights), sums.subspan(weights), counters.first);
        return static_cast<RunStatus>(before);  // an earlier run's fault stays
      }
      default: break;
    }
    return kBadPhase;
  }

  // The block that a run's numbers are in, and what it describes; nothing where no run has such numbers.
  template <typename Block, typename Described>
  static std::optional<Described> read_block(const Reached& memory, uint64_t at, Block& block, Described (*describe)(const Block&)) {
    std::memcpy(&block, memory.at(at, sizeof(block)).data(), sizeof(block));
    try {
      return describe(block);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  static void take(auto& to, auto& from, size_t count) {
    to.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    from = from.subspan(count);
  }
  static void put(const auto& from, auto& to) {
    std::ranges::copy(from, to.begin());
    to = to.subspan(from.size());
  }

  RunStatus steps(const PhaseRegisters& registers, const Reached& memory, bool back) {
    const auto& at = registers.pointers;
    StepsBlock block;
    std::optional<FixedRecurrent> described = read_block(memory, at[kSource], block, layer_of);
    if (!described) return kBadShape;
    FixedRecurrent& layer = *described;
    const StepsSizes sizes = sizes_of(layer, block);
    const auto valid = memory.of<int64_t>(at[kSource] + sizeof(block), static_cast<uint64_t>(block.layer.streams));
    auto weights = memory.of<int16_t>(at[kParameters], sizes.weights());
    take(layer.hidden_weight, weights, sizes.of_layer.hidden_weights);
    take(layer.projection_weight, weights, sizes.of_layer.projection_weights);
    const RecurrentRun run{
        .streams = block.layer.streams, .steps = block.layer.steps, .first_step = 0, .lengths = {valid.begin(), valid.end()}};
    const StepsOfBoard of{layer, {block.board_begin, block.board_end}, block.error_bits, static_cast<StepPart>(block.part)};
    const uint64_t result = at[kResult] + sizeof(ResultHeader);
    FixedKept kept;
    if (back) return steps_back(of, run, sizes, memory, at[kSecond], result);
    auto given = memory.of<int16_t>(at[kSecond], sizes.sums + sizes.of_layer.state + sizes.given_units);
    auto wide = memory.of<int32_t>(at[kExtra], sizes.of_layer.biases + sizes.of_layer.hidden_biases + sizes.of_layer.cells);
    take(layer.bias, wide, sizes.of_layer.biases);
    take(layer.hidden_bias, wide, sizes.of_layer.hidden_biases);
    RecurrentState state;
    take(state.cell, wide, sizes.of_layer.cells);
    const auto sums = given.first(sizes.sums);
    given = given.subspan(sizes.sums);
    take(state.hidden, given, sizes.of_layer.state);
    take(kept.units, given, sizes.given_units);
    const auto counted = memory.at(result, sizeof(RecurrentCounters));
    const uint64_t behind_counters = result + sizeof(RecurrentCounters);
    auto cells = memory.of<int32_t>(behind_counters, sizes.of_layer.cells);
    auto made = memory.of<int16_t>(behind_counters + sizeof(int32_t) * sizes.of_layer.cells,
                                   sizes.of_layer.state + sizes.of_layer.outputs + sizes.units + sizes.records);
    RecurrentCounters counters;
    const std::vector<int16_t> h = arithmetic_->chains().forward(of, sums, run, state, kept, counters);
    std::memcpy(counted.data(), &counters, sizeof(counters));
    put(state.cell, cells);
    put(state.hidden, made);
    put(h, made);
    put(kept.units, made);
    std::memcpy(made.data(), kept.records.data(), sizeof(UnitRecord) * kept.records.size());
    return kDone;
  }

  RunStatus steps_back(const StepsOfBoard& of, const RecurrentRun& run, const StepsSizes& sizes, const Reached& memory, uint64_t second,
                       uint64_t result) {
    auto given = memory.of<int16_t>(second, sizes.of_layer.outputs + sizes.taken + sizes.carried + sizes.records);
    const auto errors = given.first(sizes.of_layer.outputs);
    given = given.subspan(errors.size());
    FixedBackState state;
    take(state.errors, given, sizes.taken);
    take(state.carried, given, sizes.carried);
    FixedKept kept;
    kept.records.resize(sizes.records / kRecordElements);
    std::memcpy(static_cast<void*>(kept.records.data()), given.data(), sizeof(UnitRecord) * kept.records.size());
    const auto counted = memory.at(result, sizeof(ArithmeticCounters));
    auto made = memory.of<int16_t>(result + sizeof(ArithmeticCounters),
                                   sizes.taken + sizes.carried + sizes.sums + sizes.candidates + sizes.features);
    ArithmeticCounters counters;
    const FixedErrors found = arithmetic_->chains().back(of, errors, run, kept, state, counters);
    std::memcpy(counted.data(), &counters, sizeof(counters));
    put(state.errors, made);
    put(state.carried, made);
    put(found.sums, made);
    put(found.candidates, made);
    put(found.features, made);
    return kDone;
  }

  RunStatus recurrence(const PhaseRegisters& registers, const Reached& memory) {
    const auto& at = registers.pointers;
    RecurrenceBlock block;
    std::optional<FixedRecurrent> described = read_block(memory, at[kSource], block, layer_of);
    if (!described) return kBadShape;
    FixedRecurrent& layer = *described;
    const RecurrenceSizes sizes = sizes_of(layer, block);
    const auto valid = memory.of<int64_t>(at[kSource] + sizeof(block), static_cast<uint64_t>(block.streams));
    const auto vectors = memory.of<int16_t>(at[kSecond], sizes.x + sizes.state);
    auto weights = memory.of<int16_t>(at[kParameters], sizes.weights());
    take(layer.input_weight, weights, sizes.input_weights);
    take(layer.hidden_weight, weights, sizes.hidden_weights);
    take(layer.projection_weight, weights, sizes.projection_weights);
    RecurrentState state;
    auto sums = memory.of<int32_t>(at[kExtra], sizes.biases + sizes.hidden_biases + sizes.cells + sizes.sums);
    take(layer.bias, sums, sizes.biases);
    take(layer.hidden_bias, sums, sizes.hidden_biases);
    take(state.cell, sums, sizes.cells);
    auto hidden = vectors.subspan(sizes.x);
    take(state.hidden, hidden, sizes.state);

    const uint64_t behind_header = at[kResult] + sizeof(ResultHeader), behind_counters = behind_header + sizeof(RecurrentCounters);
    const auto counted = memory.at(behind_header, sizeof(RecurrentCounters));
    const auto cells = memory.of<int32_t>(behind_counters, sizes.cells);
    const auto outputs = memory.of<int16_t>(behind_counters + sizeof(int32_t) * sizes.cells, sizes.state + sizes.outputs);
    const RecurrentRun run{
        .streams = block.streams, .steps = block.steps, .first_step = 0, .lengths = {valid.begin(), valid.end()}, .sums = sums};
    RecurrentCounters counters;
    const std::vector<int16_t> h = arithmetic_->recurrence().forward(layer, run, vectors.first(sizes.x), state, counters, nullptr);
    std::memcpy(counted.data(), &counters, sizeof(counters));
    std::ranges::copy(state.cell, cells.begin());
    std::ranges::copy(state.hidden, outputs.begin());
    std::ranges::copy(h, outputs.begin() + static_cast<std::ptrdiff_t>(sizes.state));
    return kDone;
  }

  static RunStatus update(const PhaseRegisters& registers, const Reached& memory, ResultHeader& own) {
    const auto& at = registers.pointers;
    UpdateBlock block;
    std::optional<UpdateRun> described = read_block(memory, at[kSource], block, update_of);
    if (!described) return kBadShape;
    UpdateRun& run = *described;
    const uint64_t count = registers.scalars[kInputs];
    const auto slots = static_cast<uint64_t>(run.arguments.optimizer.slots());
    const std::span<float> values = memory.of<float>(at[kResult] + sizeof(ResultHeader), count * (1 + slots));
    const auto slot = [&](uint64_t index) { return index < slots ? values.subspan((1 + index) * count, count) : std::span<float>{}; };
    std::vector<float> converted;
    std::span<const float> gradient;
    if ((registers.scalars[kFlags] & kRealGradient) != 0) {
      gradient = memory.of<float>(at[kSecond], count);
    } else {
      ResultHeader of_gradient;
      std::memcpy(&of_gradient, memory.at(at[kSecond], sizeof(of_gradient)).data(), sizeof(of_gradient));
      if (of_gradient.mark != kIdentity || of_gradient.status != kDone) return kBadGradient;
      own.gradient_run = of_gradient.run;
      own.counters.second = of_gradient.counters.first;
      for (const int32_t sum : memory.of<int32_t>(at[kSecond] + block.gradient_offset, count))
        converted.push_back(gradient_value(sum, block.gradient_bits));
      gradient = converted;
    }
    const std::span<int16_t> elements = memory.of<int16_t>(at[kParameters], count);
    update_phase(run, values.first(count), gradient, slot(0), slot(1), own.counters.first);
    ArithmeticCounters exact;  // the values are elements already
    for (size_t i = 0; i < count; ++i) elements[i] = quantized(static_cast<double>(values[i]), run.format, exact);
    return kDone;
  }

  std::unique_ptr<PhaseArithmetic> arithmetic_;
};

}  // namespace

std::unique_ptr<PhaseArithmetic> make_functional_arithmetic() { return std::make_unique<FunctionalArithmetic>(); }

std::unique_ptr<PhaseBody> make_phase_body_on(std::unique_ptr<PhaseArithmetic> arithmetic) {
  return std::make_unique<Body>(std::move(arithmetic));
}

std::unique_ptr<PhaseBody> make_phase_body(std::string_view name) {
  if (name == "functional") return make_phase_body_on(make_functional_arithmetic());
  constexpr std::string_view kRtl = "rtl:";
  if (name.starts_with(kRtl)) return make_phase_body_on(make_rtl_arithmetic(name.substr(kRtl.size())));
  fail(ErrorCode::kUsage, "no body of a device is named \"{}\"{}", name, suggestion(name, {"functional", "rtl:PLAN#DEVICE"}));
}

}  // namespace millrace::xrt
