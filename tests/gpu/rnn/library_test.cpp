// Layers that a library runs: which weight goes where in its space, that a layer of ours behaves the same whoever runs it,
// and the rule by which the library is called on. The library here is a stand-in that keeps its weights as cuDNN does, in
// linear layers strewn over a space in the layer's format, and computes forward by cuDNN's published formulas from them.
#include "gpu/rnn/library.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/rnn/dispatch.h"
#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/layer_case.h"

namespace millrace::rnn {
namespace {

std::size_t at(long long a) { return static_cast<std::size_t>(a); }

// Layers in reverse, biases after all matrices, gaps everywhere.
std::vector<LinearPlace> strewn_places(const RnnShape& shape, long long& space) {
  std::vector<LinearPlace> places;
  long long next = 5;
  for (int side = shape.sides() - 1; side >= 0; --side)
    for (int layer = 2 * shape.gates() - 1; layer >= 0; --layer) {
      places.push_back({side, layer, next, -1});
      next += 1LL * shape.hidden * (layer < shape.gates() ? shape.inputs : shape.hidden) + 3;
    }
  for (LinearPlace& place : places) {
    place.bias = next;
    next += shape.hidden + 1;
  }
  space = next;
  return places;
}

template <class Bytes>
std::vector<float> floats_of(const Bytes* from, std::size_t count, Precision precision) {
  std::vector<float> values(count);
  with_format(precision, [&]<class S>(S) {
    std::vector<S> raw(count);
    std::memcpy(raw.data(), from, count * sizeof(S));
    std::transform(raw.begin(), raw.end(), values.begin(), [](S value) { return to_float(value); });
  });
  return values;
}
template <class Values>
void put(const Values& values, void* to, Precision precision) {
  with_format(precision, [&]<class S>(S) {
    std::vector<S> raw;
    for (const auto value : values) raw.push_back(from_float<S>(static_cast<float>(value)));
    std::memcpy(to, raw.data(), raw.size() * sizeof(S));
  });
}

class StandInLayer : public LibraryLayer {
 public:
  StandInLayer(const RnnShape& shape, int& passes) : shape_(shape), passes_(passes), first_state_(2), first_cell_(2) {
    long long count = 0;
    places_ = strewn_places(shape, count);
    space_.assign(at(count), 0.0F);
    gradient_space_ = space_;
  }

  void set_weights(int side, const Weights& weights) override {
    place_weights(shape_, places_, side, weights, space_);
    std::vector<unsigned char> held(space_.size() * 4);  // in the layer's format
    put(space_, held.data(), shape_.precision);
    space_ = floats_of(held.data(), space_.size(), shape_.precision);
  }
  void set_first_state(int side, const void* state, const float* cell) override {
    const std::size_t count = at(1LL * shape_.batch * shape_.hidden);
    if (state != nullptr) {
      const std::vector<float> values = floats_of(static_cast<const unsigned char*>(state), count, shape_.precision);
      first_state_[at(side)] = Numbers(values.begin(), values.end());
    }
    if (cell != nullptr) first_cell_[at(side)] = Numbers(cell, cell + count);
  }

  void forward(const void* input, void* output) override {
    ++passes_;
    const std::vector<float> x = floats_of(static_cast<const unsigned char*>(input), at(rows() * shape_.inputs), shape_.precision);
    Numbers y(at(rows() * shape_.outputs()));
    for (int side = 0; side < shape_.sides(); ++side)
      for (int sample = 0; sample < shape_.batch; ++sample) {
        Numbers h(at(shape_.hidden)), c(at(shape_.hidden));
        for (int unit = 0; unit < shape_.hidden; ++unit) {
          const std::size_t i = at(1LL * sample * shape_.hidden + unit);
          if (!first_state_[at(side)].empty()) h[at(unit)] = first_state_[at(side)][i];
          if (!first_cell_[at(side)].empty()) c[at(unit)] = first_cell_[at(side)][i];
        }
        for (int step = 0; step < shape_.steps; ++step) {
          const long long row = 1LL * (side == 0 ? step : shape_.steps - 1 - step) * shape_.batch + sample;
          const Numbers before = h;
          for (int unit = 0; unit < shape_.hidden; ++unit) {
            const auto from_input = [&](int gate) { return linear(side, gate, unit, &x[at(row * shape_.inputs)], shape_.inputs); };
            const auto from_state = [&](int gate) { return linear(side, shape_.gates() + gate, unit, before.data(), shape_.hidden); };
            h[at(unit)] = next_state(from_input, from_state, before[at(unit)], c[at(unit)]);
            y[at(row * shape_.outputs() + side * shape_.hidden + unit)] = h[at(unit)];
          }
        }
      }
    put(y, output, shape_.precision);
  }

  void backward(const void* input, const void*, const void* output_gradient, void* input_gradient) override {
    ++passes_;
    std::vector<Weights> weights;
    for (int side = 0; side < shape_.sides(); ++side) weights.push_back(weights_in(shape_, places_, side, space_));
    Reference reference(shape_, weights);
    for (int side = 0; side < shape_.sides(); ++side) {
      reference.first_state[at(side)] = first_state_[at(side)];
      reference.first_cell[at(side)] = first_cell_[at(side)];
    }
    const auto numbers = [&](const void* from, long long count) {
      const std::vector<float> values = floats_of(static_cast<const unsigned char*>(from), at(count), shape_.precision);
      return Numbers(values.begin(), values.end());
    };
    reference.forward(numbers(input, rows() * shape_.inputs));
    reference.backward(numbers(output_gradient, rows() * shape_.outputs()));
    put(reference.input_gradient, input_gradient, shape_.precision);
    for (int side = 0; side < shape_.sides(); ++side) {
      const ReferenceGradients& found = reference.gradients[at(side)];
      const auto floats = [](const Numbers& values) { return std::vector<float>(values.begin(), values.end()); };
      place_weights(shape_, places_, side,
                    {floats(found.input), floats(found.recurrent), floats(found.bias), floats(found.candidate_bias), {}}, gradient_space_);
      first_state_gradient_.push_back(floats(found.first_state));
      first_cell_gradient_.push_back(floats(found.first_cell));
    }
  }

  Weights gradients(int side) override { return weights_in(shape_, places_, side, gradient_space_); }
  std::vector<float> first_state_gradient(int side) override { return first_state_gradient_.at(at(side)); }
  std::vector<float> first_cell_gradient(int side) override { return first_cell_gradient_.at(at(side)); }

 private:
  long long rows() const { return 1LL * shape_.steps * shape_.batch; }

  // One row of a linear layer of the space, with its bias.
  template <class Value>
  double linear(int side, int layer, int unit, const Value* vector, int count) const {
    for (const LinearPlace& place : places_) {
      if (place.side != side || place.layer != layer) continue;
      double sum = static_cast<double>(space_[at(place.bias + unit)]);
      for (int k = 0; k < count; ++k)
        sum += static_cast<double>(space_[at(place.matrix + 1LL * unit * count + k)]) * static_cast<double>(vector[k]);
      return sum;
    }
    return NAN;
  }

  // cuDNN's formulas: its layers are, in this order, LSTM input, forget, new, output; GRU reset, update, new.
  template <class FromInput, class FromState>
  double next_state(FromInput w, FromState r, double h, double& c) const {
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    switch (shape_.recurrence) {
      case Recurrence::kTanh: return std::tanh(w(0) + r(0));
      case Recurrence::kRelu: return std::fmax(0, w(0) + r(0));
      case Recurrence::kLstm:
        c = sigmoid(w(1) + r(1)) * c + sigmoid(w(0) + r(0)) * std::tanh(w(2) + r(2));
        return sigmoid(w(3) + r(3)) * std::tanh(c);
      case Recurrence::kGru: {
        const double reset = sigmoid(w(0) + r(0));
        const double update = sigmoid(w(1) + r(1));
        return (1 - update) * std::tanh(w(2) + reset * r(2)) + update * h;
      }
      case Recurrence::kCanonicalGru: break;
    }
    return NAN;
  }

  RnnShape shape_;
  int& passes_;
  std::vector<LinearPlace> places_;
  std::vector<float> space_, gradient_space_;
  std::vector<Numbers> first_state_, first_cell_;
  std::vector<std::vector<float>> first_state_gradient_, first_cell_gradient_;
};

class StandIn : public Library {
 public:
  std::string name() const override { return "stand-in 1"; }
  std::vector<std::string> algorithms() const override { return {"plain", "swift"}; }
  std::unique_ptr<LibraryLayer> prepare(const std::string&, const RnnShape& shape) override {
    if (shape.recurrence == Recurrence::kCanonicalGru) throw RnnError(RnnFailure::kUnsupportedSize, "no canonical GRU here");
    return std::make_unique<StandInLayer>(shape, passes);
  }
  int passes = 0;
};

Runner library_runner() {
  Runner runner;
  runner.algorithm = "swift";
  runner.reason = "in a test";
  return runner;
}

void there_and_back() {
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru, Recurrence::kTanh, Recurrence::kRelu}) {
    const RnnShape shape{.recurrence = recurrence, .inputs = 3, .hidden = 4, .bidirectional = true, .batch = 1, .steps = 1};
    const std::string name(name_of(recurrence));
    long long count = 0;
    std::vector<LinearPlace> places = strewn_places(shape, count);
    std::vector<float> space(at(count), 0.0F);
    float next = 1;
    Weights sides[2];
    std::size_t placed = 0;
    for (int side = 0; side < 2; ++side) {
      const auto numbered = [&](std::vector<float>& values, int many) {
        for (int i = 0; i < many; ++i) values.push_back(next++);
        placed += at(many);
      };
      numbered(sides[side].input, shape.gates() * 12);
      numbered(sides[side].recurrent, shape.gates() * 16);
      numbered(sides[side].bias, shape.gates() * 4);
      if (recurrence == Recurrence::kGru) numbered(sides[side].candidate_bias, 4);
      place_weights(shape, places, side, sides[side], space);
    }
    // Nothing is written over, and nothing else is written: two biases per gate meet in one sum.
    expect(at(static_cast<long long>(space.size())) - at(std::count(space.begin(), space.end(), 0.0F)) == placed,
           name + ": all weights, once");
    for (int side = 0; side < 2; ++side) {
      const Weights back = weights_in(shape, places, side, space);
      expect(back.input == sides[side].input && back.recurrent == sides[side].recurrent && back.bias == sides[side].bias &&
                 back.candidate_bias == sides[side].candidate_bias,
             name + ": the same weights come back");
    }
    const auto refused = [&](const std::string& what) {
      try {
        weights_in(shape, places, 1, space);
        expect(false, name + ": " + what + " must be refused");
      } catch (const RnnError& error) {
        expect(error.kind() == RnnFailure::kMissingPart, error.what());
      }
    };
    places.front().matrix = count - 1;
    refused("a matrix beyond the space");
    places.erase(places.begin());
    refused("a missing linear layer");
  }
}

// Whoever runs a layer, it yields the same: against double precision, through the same calls.
void as_our_own() {
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru, Recurrence::kTanh, Recurrence::kRelu})
    for (const Precision precision : {Precision::kFloat, Precision::kHalf}) {
      StandIn library;
      EmulatedGpu gpu;
      gpu.dnn_library = &library;
      const std::unique_ptr<Machine> machine = emulated_machine(gpu);
      const RnnShape shape{.recurrence = recurrence,
                           .inputs = 3,
                           .hidden = 5,
                           .bidirectional = true,
                           .batch = 2,
                           .steps = 4,
                           .precision = precision,
                           .training = true};
      const std::string name = std::string(name_of(recurrence)) + " " + std::string(name_of(precision));
      const Differences found =
          LayerCase(shape, 3, true)
              .run(
                  *machine,
                  [&](RnnLayer& layer) {
                    expect(layer.runner().is_library() && !layer.layout(false), name + ": " + name_of(layer.runner()));
                    try {
                      layer.use_layout(false, std::nullopt);
                      expect(false, name + ": a layout for the library");
                    } catch (const RnnError&) {
                    }
                  },
                  library_runner());
      const double tolerance = precision == Precision::kFloat ? 1e-5 : 2e-3;
      expect(library.passes == 2, name + ": " + std::to_string(library.passes) + " passes of the library");
      expect(found.output <= tolerance && found.gradients <= tolerance,
             name + ": off by " + std::to_string(found.output) + ", gradients " + std::to_string(found.gradients));
    }
}

// By the rule: the library for what the chip does not hold, our kernels for what it does, and for what the library refuses.
void by_rule() {
  StandIn library;
  EmulatedGpu small{.multiprocessors = 1, .shared_bytes = 256};
  EmulatedGpu large{.multiprocessors = 8};
  const auto run = [&](EmulatedGpu gpu, Recurrence recurrence, Library* there, bool expected, const std::string& because) {
    gpu.dnn_library = there;
    const std::unique_ptr<Machine> machine = emulated_machine(gpu);
    const RnnShape shape{.recurrence = recurrence, .inputs = 3, .hidden = 20, .batch = 2, .steps = 3, .training = true};
    const Differences found = LayerCase(shape, 5).run(
        *machine,
        [&](RnnLayer& layer) {
          const std::string who = name_of(layer.runner());
          expect(layer.runner().is_library() == expected && who.find(because) != std::string::npos, who + ", where \"" + because + "\"");
        },
        std::nullopt);
    expect(found.output <= 1e-5 && found.gradients <= 1e-5, because + ": off by " + std::to_string(found.output));
  };
  run(small, Recurrence::kLstm, &library, true, "no kernel holds");
  run(small, Recurrence::kLstm, nullptr, false, "there is no library");
  run(small, Recurrence::kCanonicalGru, &library, false, "no canonical GRU here");
  run(large, Recurrence::kLstm, &library, false, "us per step for ours");
}

// The rule's two estimates against GRNN's Table 1, LSTM: microseconds per step of its kernels and of cuDNN's traditional.
void rule_against_table_1() {
  struct Row {
    int hidden, batch;
    double grnn, cudnn;
  };
  const Row rows[] = {{64, 1, 2.0, 9.6},    {64, 10, 2.3, 17.9},  {64, 20, 2.4, 18.0}, {256, 1, 3.0, 11.0},   {256, 10, 3.8, 18.9},
                      {256, 20, 4.9, 19.8}, {1024, 1, 6.3, 44.3}, {1024, 10, 43, 61},  {1024, 20, 80.1, 85.1}};
  for (const Row& row : rows) {
    const Parted ranked = ranked_in_parts({Cell::kLstm, row.hidden, row.batch}, titan_v());
    const double own = own_step_by_rule(ranked.total() + 4 * titan_v().l2_latency * ranked.parts);
    const double library = library_step_by_rule({.inputs = row.hidden, .hidden = row.hidden, .batch = row.batch, .steps = 100});
    const std::string name = std::to_string(row.hidden) + " units, batch " + std::to_string(row.batch) + ": ";
    expect(std::fabs(own / row.grnn - 1) <= 0.26, name + std::to_string(own) + " us for ours, paper " + std::to_string(row.grnn));
    expect(std::fabs(library / row.cudnn - 1) <= 0.33,
           name + std::to_string(library) + " us for cuDNN, paper " + std::to_string(row.cudnn));
    expect((own <= library) == (row.grnn <= row.cudnn), name + "the rule's choice is the faster one of the paper");
  }
  const RnnShape large{.inputs = 1024, .hidden = 1024, .batch = 64, .steps = 100};
  const Parted ranked = ranked_in_parts({Cell::kLstm, 1024, 64}, titan_v());
  expect(own_step_by_rule(ranked.total()) > library_step_by_rule(large), "large batches are the library's");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  there_and_back();
  as_our_own();
  by_rule();
  rule_against_table_1();
  return report("layers of a library");
}
