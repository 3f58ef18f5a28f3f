#include "fpga/xrt/device/xrt_convolution_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace::xrt {

namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kSourceSlots = 4;  // two pieces under way, with two sources each
constexpr size_t kHeaderBytes = sizeof(ResultHeader);

template <typename T>
std::span<const uint8_t> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}
// A buffer of the device and what it holds, where that is known.
struct Held {
  uint32_t buffer = 0;
  uint64_t capacity = 0;
  std::vector<uint8_t> content;
};

// What a parameter has on the device.
struct Parameter {
  Held elements;  // as FP and EB take them
  Held bias;      // beside weights: the biases that FP was given
  Held values;    // as WU takes them, behind its header, with the optimizer's slots
};

class Engine final : public XrtConvolutionEngine {
 public:
  Engine(std::unique_ptr<DeviceLink> link, const XrtEngineOptions& options) : link_(std::move(link)), options_(options) {}

  std::string description() const override { return options_.description; }
  const LinkTraffic& traffic() const override { return traffic_; }

  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, const void* owner, PhaseCounters& counters) override {
    Parameter& parameter = parameters_[owner];
    hold(parameter.elements, bytes_of(data.weight));
    if (!data.bias.empty()) hold(parameter.bias, bytes_of(data.bias));
    const uint32_t flags = (data.before.empty() ? 0 : kAdds) | (data.bias.empty() ? 0 : kBias);
    const size_t inputs = phase.convolution.input_elements(), outputs = phase.convolution.output_elements();
    return in_pieces(phase, inputs, outputs, counters, [&](const PhaseShape& piece, size_t sample) {
      PhaseRegisters registers = registers_of(PhaseCode::kForward, piece, flags, ++run_);
      const auto samples = to_size(piece.samples);
      const size_t source = source_with(bytes_of(data.input.subspan(sample * inputs, samples * inputs)));
      registers.pointers[kSource] = sources_[source].buffer;
      if (!data.before.empty())
        registers.pointers[kSecond] =
            sources_[source_with(bytes_of(data.before.subspan(sample * outputs, samples * outputs)), source)].buffer;
      registers.pointers[kParameters] = parameter.elements.buffer;
      if (!data.bias.empty()) registers.pointers[kExtra] = parameter.bias.buffer;
      return registers;
    });
  }

  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  const void* owner, ArithmeticCounters& counters) override {
    Parameter& parameter = parameters_[owner];
    hold(parameter.elements, bytes_of(weight));
    const size_t inputs = phase.convolution.input_elements(), outputs = phase.convolution.output_elements();
    PhaseCounters both;
    std::vector<int16_t> result = in_pieces(phase, outputs, inputs, both, [&](const PhaseShape& piece, size_t sample) {
      PhaseRegisters registers = registers_of(PhaseCode::kErrorBack, piece, 0, ++run_);
      const auto samples = to_size(piece.samples);
      registers.pointers[kSource] = sources_[source_with(bytes_of(output_error.subspan(sample * outputs, samples * outputs)))].buffer;
      registers.pointers[kParameters] = parameter.elements.buffer;
      return registers;
    });
    counters += both.first;
    return result;
  }

  std::shared_ptr<GradientSum> make_gradient_sum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters) override;
  void update(const UpdateRun& update, const void* owner, std::span<float> weights, const GradientSource& gradient,
              std::span<float> first_slot, std::span<float> second_slot, ArithmeticCounters& counters) override;

 private:
  friend class Sum;

  // --- The device's memory.

  void make_room(Held& held, uint64_t bytes) {
    if (held.capacity >= bytes && held.buffer != 0) return;
    if (held.buffer != 0) link_->release(held.buffer);
    held.capacity = (std::max<uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    held.buffer = link_->allocate(held.capacity);
    held.content.clear();
  }
  // `at` bytes from the buffer's start.
  void hold(Held& held, std::span<const uint8_t> bytes, uint64_t at = 0) {
    if (held.buffer != 0 && std::ranges::equal(held.content, bytes)) {
      traffic_.bytes_kept += static_cast<int64_t>(bytes.size());
      return;
    }
    make_room(held, at + bytes.size());
    link_->write(held.buffer, at, bytes);
    traffic_.bytes_sent += static_cast<int64_t>(bytes.size());
    held.content.assign(bytes.begin(), bytes.end());
  }
  void fetch(uint32_t buffer, uint64_t offset, std::span<uint8_t> bytes) {
    link_->read(buffer, offset, bytes);
    traffic_.bytes_fetched += static_cast<int64_t>(bytes.size());
  }
  // A slot whose buffer holds the bytes, other than `taken`.
  size_t source_with(std::span<const uint8_t> bytes, size_t taken = kSourceSlots) {
    for (size_t i = 0; i < kSourceSlots; ++i)
      if (sources_[i].buffer != 0 && std::ranges::equal(sources_[i].content, bytes)) {
        traffic_.bytes_kept += static_cast<int64_t>(bytes.size());
        return i;
      }
    next_source_ = (next_source_ + 1) % kSourceSlots;
    if (next_source_ == taken) next_source_ = (next_source_ + 1) % kSourceSlots;
    hold(sources_[next_source_], bytes);
    return next_source_;
  }

  // --- Runs.

  void start(const PhaseRegisters& registers) {
    link_->run(registers);
    ++traffic_.runs;
  }
  void check(const ResultHeader& header, uint32_t run, std::string_view phase) const {
    check_result(header, run, phase, options_.description);
  }

  int64_t samples_of_a_piece(size_t bytes_per_sample) const {
    return std::max<int64_t>(1, static_cast<int64_t>(options_.piece_bytes / std::max<size_t>(bytes_per_sample, 1)));
  }

  // `registers_for` sends what a piece needs; its result is fetched while the next one is computed.
  template <typename Function>
  std::vector<int16_t> in_pieces(const PhaseShape& phase, size_t in, size_t out, PhaseCounters& counters, Function&& registers_for) {
    std::vector<int16_t> result(out * to_size(phase.samples));
    const int64_t step = samples_of_a_piece(sizeof(int16_t) * (in + out));
    struct Piece {
      Held* slot;
      uint32_t run;
      std::span<int16_t> place;
      std::string_view phase;
    };
    std::optional<Piece> before;
    const auto collect = [&](const Piece& piece) {
      fetched_.resize(kHeaderBytes + piece.place.size_bytes());
      fetch(piece.slot->buffer, 0, fetched_);
      ResultHeader header;
      std::memcpy(&header, fetched_.data(), kHeaderBytes);
      check(header, piece.run, piece.phase);
      counters.first += header.counters.first;
      counters.second += header.counters.second;
      std::memcpy(piece.place.data(), fetched_.data() + kHeaderBytes, piece.place.size_bytes());
    };
    for (int64_t sample = 0; sample < phase.samples; sample += step) {
      PhaseShape part = phase;
      part.samples = std::min(step, phase.samples - sample);
      PhaseRegisters registers = registers_for(part, to_size(sample));
      Held& slot = results_[next_result_ = (next_result_ + 1) % results_.size()];
      const auto place = std::span(result).subspan(to_size(sample) * out, to_size(part.samples) * out);
      make_room(slot, kHeaderBytes + place.size_bytes());
      registers.pointers[kResult] = slot.buffer;
      start(registers);
      if (before) collect(*before);
      before = Piece{&slot, registers.scalars[kRun], place, kForwardOrBack[registers.scalars[kPhase] - 1]};
    }
    if (before) collect(*before);
    return result;
  }

  static constexpr std::string_view kForwardOrBack[] = {"FP", "EB"};

  std::unique_ptr<DeviceLink> link_;
  XrtEngineOptions options_;
  LinkTraffic traffic_;
  uint32_t run_ = 0;
  std::map<const void*, Parameter> parameters_;  // by tensor
  std::array<Held, kSourceSlots> sources_;
  std::array<Held, 2> results_;
  size_t next_source_ = 0, next_result_ = 0;
  std::vector<Held> free_sums_;  // buffers of gradients that nobody needs
  std::vector<uint8_t> fetched_;
};

class Sum final : public GradientSum {
 public:
  Sum(Engine& engine, const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters)
      : engine_(engine), weights_(shape.weight_elements()), biases_(bias ? to_size(shape.outputs) : 0), counters_(counters) {
    const uint64_t bytes = kHeaderBytes + sizeof(int32_t) * (weights_ + biases_);
    auto& free = engine_.free_sums_;
    const auto fits = std::ranges::find_if(free, [&](const Held& held) { return held.capacity >= bytes && held.capacity < bytes + kPage; });
    if (fits != free.end()) {
      held_ = std::move(*fits);
      free.erase(fits);
    } else {
      engine_.make_room(held_, bytes);
    }
  }
  ~Sum() override { engine_.free_sums_.push_back(std::move(held_)); }

  void set(std::span<const int32_t> weight, std::span<const int32_t> bias) override {
    MILLRACE_CHECK(weight.size() == weights_ && bias.size() == biases_, "gradients of {} and {} elements", weight.size(), bias.size());
    const ResultHeader header{.mark = kIdentity, .status = kDone};
    std::vector<uint8_t> bytes(kHeaderBytes);
    std::memcpy(bytes.data(), &header, kHeaderBytes);
    for (const auto part : {weight, bias}) bytes.insert(bytes.end(), bytes_of(part).begin(), bytes_of(part).end());
    engine_.link_->write(held_.buffer, 0, bytes);
    engine_.traffic_.bytes_sent += static_cast<int64_t>(bytes.size());
    fresh_ = false;
    run_ = 0;
    fetched_.clear();
  }

  void add(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error) override {
    const size_t inputs = phase.convolution.input_elements(), outputs = phase.convolution.output_elements();
    const int64_t step = engine_.samples_of_a_piece(sizeof(int16_t) * (inputs + outputs));
    for (int64_t sample = 0; sample < phase.samples; sample += step) {
      PhaseShape part = phase;
      part.samples = std::min(step, phase.samples - sample);
      const auto first = to_size(sample), samples = to_size(part.samples);
      PhaseRegisters registers =
          registers_of(PhaseCode::kGradient, part, (biases_ > 0 ? kBias : 0) | (fresh_ ? kFresh : 0), run_ = ++engine_.run_);
      const size_t source = engine_.source_with(bytes_of(input.subspan(first * inputs, samples * inputs)));
      const size_t second = engine_.source_with(bytes_of(output_error.subspan(first * outputs, samples * outputs)), source);
      registers.pointers[kSource] = engine_.sources_[source].buffer;
      registers.pointers[kSecond] = engine_.sources_[second].buffer;
      registers.pointers[kResult] = held_.buffer;
      engine_.start(registers);
      fresh_ = false;
    }
    fetched_.clear();
  }

  std::vector<int32_t> read(size_t part) override {
    if (fetched_.empty()) {
      if (fresh_) set(std::vector<int32_t>(weights_), std::vector<int32_t>(biases_));
      fetched_.resize(kHeaderBytes + sizeof(int32_t) * (weights_ + biases_));
      engine_.fetch(held_.buffer, 0, fetched_);
      take_header();
    }
    std::vector<int32_t> values(part == 0 ? weights_ : biases_);
    if (!values.empty()) std::memcpy(values.data(), fetched_.data() + offset(part), sizeof(int32_t) * values.size());
    return values;
  }

  // WU used the sum: what it says of the header it found.
  void used(const ResultHeader& header) {
    if (header.gradient_run != run_)
      fail(ErrorCode::kUnavailable, "{}: WU used the gradient of run {}, and PG's was {}", engine_.options_.description,
           header.gradient_run, run_);
    count(header.counters.second);
  }
  size_t offset(size_t part) const { return kHeaderBytes + (part == 0 ? 0 : sizeof(int32_t) * weights_); }
  uint32_t buffer() const { return held_.buffer; }

 private:
  void take_header() {
    ResultHeader header;
    std::memcpy(&header, fetched_.data(), kHeaderBytes);
    engine_.check(header, run_, "PG");
    count(header.counters.first);
  }
  // The device counts from its first run on.
  void count(const ArithmeticCounters& counters) {
    counters_.accumulator_overflows += counters.accumulator_overflows - overflows_;
    overflows_ = counters.accumulator_overflows;
  }

  Engine& engine_;
  size_t weights_, biases_;
  ArithmeticCounters& counters_;
  Held held_;
  bool fresh_ = true;
  uint32_t run_ = 0;
  int64_t overflows_ = 0;
  std::vector<uint8_t> fetched_;  // header and sums; empty: to be fetched
};

std::shared_ptr<GradientSum> Engine::make_gradient_sum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters) {
  return std::make_shared<Sum>(*this, shape, bias, counters);
}

void Engine::update(const UpdateRun& update, const void* owner, std::span<float> weights, const GradientSource& gradient,
                    std::span<float> first_slot, std::span<float> second_slot, ArithmeticCounters& counters) {
  Parameter& parameter = parameters_[owner];
  auto* sum = dynamic_cast<Sum*>(gradient.sum);
  MILLRACE_CHECK(gradient.sum == nullptr || sum != nullptr, "a gradient of another engine");
  PhaseShape shape;
  shape.convolution.inputs = static_cast<int64_t>(weights.size());
  PhaseRegisters registers = registers_of(PhaseCode::kUpdate, shape, sum == nullptr ? kRealGradient : 0, ++run_);
  const UpdateBlock block = block_of(update, gradient.fraction_bits, sum == nullptr ? 0 : sum->offset(gradient.part));
  const size_t settings = source_with(bytes_of(std::span<const UpdateBlock>(&block, 1)));
  registers.pointers[kSource] = sources_[settings].buffer;
  registers.pointers[kSecond] = sum != nullptr ? sum->buffer() : sources_[source_with(bytes_of(gradient.values), settings)].buffer;
  std::vector<float> values(weights.begin(), weights.end());
  values.insert(values.end(), first_slot.begin(), first_slot.end());
  values.insert(values.end(), second_slot.begin(), second_slot.end());
  hold(parameter.values, bytes_of(std::span<const float>(values)), kHeaderBytes);
  registers.pointers[kResult] = parameter.values.buffer;
  make_room(parameter.elements, sizeof(int16_t) * weights.size());
  registers.pointers[kParameters] = parameter.elements.buffer;
  start(registers);

  fetched_.resize(kHeaderBytes + sizeof(float) * values.size());
  fetch(parameter.values.buffer, 0, fetched_);
  ResultHeader header;
  std::memcpy(&header, fetched_.data(), kHeaderBytes);
  check(header, registers.scalars[kRun], "WU");
  if (sum != nullptr) sum->used(header);
  counters += header.counters.first;
  std::memcpy(values.data(), fetched_.data() + kHeaderBytes, sizeof(float) * values.size());
  const auto content = bytes_of(std::span<const float>(values));
  parameter.values.content.assign(content.begin(), content.end());
  std::copy_n(values.begin(), weights.size(), weights.begin());
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(weights.size()), first_slot.size(), first_slot.begin());
  std::copy_n(values.end() - static_cast<std::ptrdiff_t>(second_slot.size()), second_slot.size(), second_slot.begin());
  // What the device made of the weights for FP and EB.
  ArithmeticCounters exact;
  std::vector<int16_t> elements;
  for (const float weight : weights) elements.push_back(quantized(static_cast<double>(weight), update.format, exact));
  const auto known = bytes_of(std::span<const int16_t>(elements));
  parameter.elements.content.assign(known.begin(), known.end());
}

}  // namespace

std::unique_ptr<XrtConvolutionEngine> make_xrt_convolution_engine(std::unique_ptr<DeviceLink> link, const XrtEngineOptions& options) {
  return std::make_unique<Engine>(std::move(link), options);
}

}  // namespace millrace::xrt
