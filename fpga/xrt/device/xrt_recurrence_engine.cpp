#include "fpga/xrt/device/xrt_recurrence_engine.h"

#include <utility>
#include <vector>

#include "fpga/xrt/device/held_buffers.h"
#include "fpga/xrt/protocol/recurrence_block.h"

namespace millrace::xrt {

namespace {

class BoardRecurrence final : public RecurrenceEngine {
 public:
  BoardRecurrence(DeviceLink& link, std::string description) : link_(link), description_(std::move(description)), buffers_(link) {}

  std::vector<int16_t> forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                               RecurrentCounters& counters, RecurrentTrace* trace) override {
    const RecurrenceBlock block = block_of(layer, run);
    const RecurrenceSizes sizes = sizes_of(layer, block);
    PhaseRegisters registers;
    registers.scalars[kPhase] = static_cast<uint32_t>(PhaseCode::kRecurrence);
    registers.scalars[kRun] = ++run_;
    std::vector<int64_t> valid;
    for (int64_t stream = 0; stream < run.streams; ++stream) valid.push_back(run.valid_steps(stream));
    registers.pointers[kSource] = buffers_.holding(kSource, Parts().add_one(block).add(valid).bytes());
    registers.pointers[kSecond] = buffers_.holding(kSecond, Parts().add(x).add(state.hidden).bytes());
    registers.pointers[kParameters] =
        buffers_.holding(kParameters, Parts().add(layer.input_weight).add(layer.hidden_weight).add(layer.projection_weight).bytes());
    registers.pointers[kExtra] =
        buffers_.holding(kExtra, Parts().add(layer.bias).add(layer.hidden_bias).add(state.cell).add(run.sums).bytes());

    const RecurrentState before = trace != nullptr ? state : RecurrentState{};
    const size_t bytes =
        sizeof(ResultHeader) + sizeof(RecurrentCounters) + sizeof(int32_t) * sizes.cells + sizeof(int16_t) * (sizes.state + sizes.outputs);
    registers.pointers[kResult] = buffers_.with_room(kResult, bytes);
    link_.run(registers);
    Taken result = buffers_.read(kResult, bytes);
    ResultHeader header;
    result.take(header);
    check_result(header, registers.scalars[kRun], "the recurrence", description_);
    RecurrentCounters counted;
    result.take(counted);
    counters += counted;
    state.cell.resize(sizes.cells);
    result.take_all(state.cell);
    result.take_all(state.hidden);
    std::vector<int16_t> h(sizes.outputs);
    result.take_all(h);
    if (trace != nullptr) {
      RecurrentState again = before;
      RecurrentCounters counted_already;
      direct_forward(layer, run, x, again, counted_already, trace);
    }
    return h;
  }

 private:
  DeviceLink& link_;
  std::string description_;
  uint32_t run_ = 0;
  HeldBuffers buffers_;
};

}  // namespace

std::unique_ptr<RecurrenceEngine> make_xrt_recurrence_engine(DeviceLink& link, std::string description) {
  return std::make_unique<BoardRecurrence>(link, std::move(description));
}

}  // namespace millrace::xrt
