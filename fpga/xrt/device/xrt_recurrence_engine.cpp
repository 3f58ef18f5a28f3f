#include "fpga/xrt/device/xrt_recurrence_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "fpga/xrt/protocol/recurrence_block.h"

namespace millrace::xrt {

namespace {

constexpr uint64_t kRoom = 4096;  // buffers are multiples

// One after the other as they go to the device.
template <typename T>
void append(std::span<const T> values, std::vector<uint8_t>& bytes) {
  const auto* first = reinterpret_cast<const uint8_t*>(values.data());
  bytes.insert(bytes.end(), first, first + values.size_bytes());
}

class BoardRecurrence final : public RecurrenceEngine {
 public:
  BoardRecurrence(DeviceLink& link, std::string description) : link_(link), description_(std::move(description)) {}

  std::vector<int16_t> forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                               RecurrentCounters& counters, RecurrentTrace* trace) override {
    const RecurrenceBlock block = block_of(layer, run);
    const RecurrenceSizes sizes = sizes_of(layer, block);
    PhaseRegisters registers;
    registers.scalars[kPhase] = static_cast<uint32_t>(PhaseCode::kRecurrence);
    registers.scalars[kRun] = ++run_;
    std::vector<uint8_t> bytes;
    append(std::span<const RecurrenceBlock>(&block, 1), bytes);
    std::vector<int64_t> valid;
    for (int64_t stream = 0; stream < run.streams; ++stream) valid.push_back(run.valid_steps(stream));
    append<int64_t>(valid, bytes);
    registers.pointers[kSource] = holding(kSource, std::move(bytes));
    bytes.clear();
    append(x, bytes);
    append<int16_t>(state.hidden, bytes);
    registers.pointers[kSecond] = holding(kSecond, std::move(bytes));
    bytes.clear();
    for (const auto& weights : {layer.input_weight, layer.hidden_weight, layer.projection_weight}) append<int16_t>(weights, bytes);
    registers.pointers[kParameters] = holding(kParameters, std::move(bytes));
    bytes.clear();
    for (const auto& biases : {layer.bias, layer.hidden_bias, state.cell}) append<int32_t>(biases, bytes);
    append<int32_t>(run.sums, bytes);
    registers.pointers[kExtra] = holding(kExtra, std::move(bytes));

    const RecurrentState before = trace != nullptr ? state : RecurrentState{};
    std::vector<uint8_t> result(sizeof(ResultHeader) + sizeof(RecurrentCounters) + sizeof(int32_t) * sizes.cells +
                                sizeof(int16_t) * (sizes.state + sizes.outputs));
    make_room(buffers_[kResult], result.size());
    registers.pointers[kResult] = buffers_[kResult].buffer;
    link_.run(registers);
    link_.read(buffers_[kResult].buffer, 0, result);
    const uint8_t* from = result.data();
    const auto take = [&from](void* to, size_t size) {
      if (size > 0) std::memcpy(to, from, size);
      from += size;
    };
    ResultHeader header;
    take(&header, sizeof(header));
    check_result(header, registers.scalars[kRun], "the recurrence", description_);
    RecurrentCounters counted;
    take(&counted, sizeof(counted));
    counters += counted;
    take(state.cell.data(), sizeof(int32_t) * sizes.cells);
    take(state.hidden.data(), sizeof(int16_t) * sizes.state);
    std::vector<int16_t> h(sizes.outputs);
    take(h.data(), sizeof(int16_t) * sizes.outputs);
    if (trace != nullptr) {
      RecurrentState again = before;
      RecurrentCounters counted_already;
      direct_forward(layer, run, x, again, counted_already, trace);
    }
    return h;
  }

 private:
  // A buffer of the device and what it holds.
  struct Held {
    uint32_t buffer = 0;
    uint64_t capacity = 0;
    std::vector<uint8_t> content;
  };

  void make_room(Held& held, uint64_t bytes) {
    if (held.buffer != 0 && held.capacity >= bytes) return;
    if (held.buffer != 0) link_.release(held.buffer);
    held.capacity = (std::max<uint64_t>(bytes, 1) + kRoom - 1) / kRoom * kRoom;
    held.buffer = link_.allocate(held.capacity);
    held.content.clear();
  }
  uint32_t holding(Pointer pointer, std::vector<uint8_t> bytes) {
    Held& held = buffers_[pointer];
    if (held.buffer != 0 && held.content == bytes) return held.buffer;
    make_room(held, bytes.size());
    if (!bytes.empty()) link_.write(held.buffer, 0, bytes);
    held.content = std::move(bytes);
    return held.buffer;
  }

  DeviceLink& link_;
  std::string description_;
  uint32_t run_ = 0;
  std::array<Held, kPointerCount> buffers_;
};

}  // namespace

std::unique_ptr<RecurrenceEngine> make_xrt_recurrence_engine(DeviceLink& link, std::string description) {
  return std::make_unique<BoardRecurrence>(link, std::move(description));
}

}  // namespace millrace::xrt
