#include "fpga/cost/engines_at_place.h"

#include <algorithm>
#include <utility>

#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/rtl/built_memory.h"

namespace millrace {
namespace {

constexpr double kRoundedUp = 2;  // halves of a block: weights and gradients to one each

}  // namespace

GeneratedEngines::EnginesAtPlace::EnginesAtPlace(const GeneratedEngines& all, const GeneratedEngine& engine, const WeightsAt& weights,
                                                 const ConvolutionShape& shape, size_t place, std::shared_ptr<EngineBlocks> known)
    : layer_(&*all.layers_[engine.layer]),
      place_(place),
      known_(std::move(known)),
      weights_(weights),
      shape_(shape),
      around_(surroundings_of(*layer_, engine, weights)),
      streams_{.samples = 1, .gradient_samples = weights.gradient_samples, .beat_bits = kMostBeatBits} {
  const int64_t elements = shape_.inputs * shape_.outputs / shape_.groups * shape_.kernel_h * shape_.kernel_w;
  if (weights.off_chip) {
    least_of_weights_ = least_stream_blocks(around_, kMostBeatBits);
    least_bytes_ = bytes_per_sample(streams_, elements, shape_, around_.error_back);
  } else {
    least_of_weights_ = least_bram18_of_bits(elements * kElementBits) + least_bram18_of_bits(elements * kAccumulatorBits);
  }
  Fronts& fronts = all.fronts_of(*layer_, engine.width, shape_);
  of_blocks_ = std::unique_lock(known_->mutex);
  front_ = &all.whole_front_of(fronts, *layer_, engine.width, shape_);
  choices_ = front_->found();
  of_inputs_ = &of_lanes_at(known_->of_inputs, layer_->by_outputs ? 0 : place);
  of_outputs_ = &of_lanes_at(known_->of_outputs, layer_->by_outputs ? place : 0);
}

GeneratedEngines::EnginesAtPlace::LeastOfKinds GeneratedEngines::EnginesAtPlace::least_of_kinds(const EngineFront::Choice& choice) const {
  const auto lanes = static_cast<double>(of_lanes(choice) - act_ram_columns(choice.input_lanes, weights_));
  const auto of_weights = static_cast<double>(least_blocks(choice) - of_lanes(choice));
  if (weights_.off_chip) return {(lanes + of_weights) / 2, 0};
  return {lanes / 2, std::max(of_weights - kRoundedUp, 0.0) / 2};
}

int64_t GeneratedEngines::EnginesAtPlace::count_of_lanes(const EngineFront::Choice& choice) const {
  return blocks_at(*layer_, front_->engine(choice), shape_, around_, place_, *known_);
}

size_t GeneratedEngines::EnginesAtPlace::too_slow(int64_t cycles) const {
  const auto is_too_slow = [=](const EngineFront::Choice& choice) { return choice.slowest > cycles; };
  return to_size(std::ranges::partition_point(choices_, is_too_slow) - choices_.begin());
}

int64_t GeneratedEngines::EnginesAtPlace::next_slowest(int64_t cycles) const {
  const size_t slower = too_slow(cycles);
  return slower == 0 ? std::numeric_limits<int64_t>::max() : choices_[slower - 1].slowest;
}

GeneratedEngines::EnginesAtPlace::One::One(const EnginesAtPlace& place, const EngineFront::Choice& choice)
    : place_(&place),
      engine_(place.front_->engine(choice)),
      groups_of_inputs_(engine_.groups_of_inputs(place.shape_.inputs)),
      words_(engine_.groups_of_outputs(place.shape_.outputs) * (groups_of_inputs_ / engine_.channel_groups) * engine_.load_words()),
      of_lanes_(place.of_lanes(choice)) {}

int64_t GeneratedEngines::EnginesAtPlace::One::least_blocks() const {
  if (place_->weights_.off_chip) return of_lanes_ + place_->least_of_weights_;
  return of_lanes_ + least_bram18_of(parameter_memory(engine_, words_, place_->around_.error_back)) +
         least_bram18_of(gradient_memory(engine_, words_));
}

int64_t GeneratedEngines::EnginesAtPlace::One::blocks() const {
  if (place_->weights_.off_chip) return of_lanes_ + stream_blocks(engine_, place_->shape_, place_->around_, kMostBeatBits);
  return of_lanes_ + bram18_of(parameter_memory(engine_, words_, place_->around_.error_back)) + bram18_of(gradient_memory(engine_, words_));
}

MemoryBlocks GeneratedEngines::EnginesAtPlace::One::parameters() const {
  return MemoryBlocks(parameter_memory(engine_, words_, place_->around_.error_back));
}

MemoryBlocks GeneratedEngines::EnginesAtPlace::One::gradients() const { return MemoryBlocks(gradient_memory(engine_, words_)); }

int64_t GeneratedEngines::EnginesAtPlace::One::port_cycles() const {
  if (!place_->weights_.off_chip) return 0;
  const StreamCycles ports = weight_stream_cycles(place_->streams_, words_ * word_elements(engine_), place_->shape_);
  return std::max({ports.forward, place_->around_.error_back ? ports.error_back : 0, ports.gradient});
}

double GeneratedEngines::EnginesAtPlace::One::bytes() const {
  if (!place_->weights_.off_chip) return 0;
  return bytes_per_sample(place_->streams_, words_ * word_elements(engine_), place_->shape_, place_->around_.error_back);
}

}  // namespace millrace
