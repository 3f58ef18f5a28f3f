// Recurrent layers on the emulator, forward and backward, against double precision: every recurrence and format, several
// sizes, numbers of blocks and schedules; and what is refused or hangs.
#include "gpu/rnn/layer.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/layer_case.h"

namespace millrace::rnn {
namespace {

using emulator::Schedule;

std::string name_of(const RnnShape& shape) {
  return std::string(name_of(shape.recurrence)) + " " + std::string(name_of(shape.precision)) + ", " + std::to_string(shape.inputs) +
         " to " + std::to_string(shape.hidden) + (shape.projection > 0 ? " to " + std::to_string(shape.projection) : "") + ", batch " +
         std::to_string(shape.batch) + ", " + std::to_string(shape.steps) + " steps" + (shape.bidirectional ? ", both ways" : "") +
         (shape.training ? ", training" : "");
}

// Gradients by the reference's own backward pass against differences of its forward pass, so that it is worth being held
// against.
void reference_is_right() {
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru, Recurrence::kCanonicalGru, Recurrence::kTanh})
    for (const int projection : {0, 2}) {
      if (projection > 0 && recurrence != Recurrence::kLstm) continue;
      const RnnShape shape{.recurrence = recurrence,
                           .inputs = 2,
                           .hidden = 3,
                           .projection = projection,
                           .bidirectional = true,
                           .batch = 2,
                           .steps = 3,
                           .training = true};
      std::vector<Weights> weights(2);
      unsigned next = 1;
      const auto fill = [&](std::vector<float>& values, int count) {
        for (int i = 0; i < count; ++i)
          values.push_back(static_cast<float>((next = next * 1103515245U + 12345U) >> 16U & 0xFFU) / 256.0F - 0.5F);
      };
      for (Weights& w : weights) {
        fill(w.input, shape.gates() * 6);
        fill(w.recurrent, shape.gates() * 3 * shape.state());
        fill(w.bias, shape.gates() * 3);
        if (recurrence == Recurrence::kGru) fill(w.candidate_bias, 3);
        fill(w.projection, projection * 3);
      }
      std::vector<float> x;
      fill(x, 12);
      const Numbers input(x.begin(), x.end());
      const auto loss = [&](const std::vector<Weights>& w) {
        Reference reference(shape, w);
        reference.forward(input);
        double sum = 0;
        for (std::size_t i = 0; i < reference.output.size(); ++i) sum += reference.output[i] * std::cos(static_cast<double>(i));
        return sum;
      };
      Reference reference(shape, weights);
      reference.forward(input);
      Numbers dy(reference.output.size());
      for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = std::cos(static_cast<double>(i));
      reference.backward(dy);
      double worst = 0;
      const auto check = [&](std::size_t side, std::vector<float> Weights::*member, const Numbers& gradient) {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          std::vector<Weights> more = weights, less = weights;
          const float step = 0x1p-8F;
          (more[side].*member)[i] += step;
          (less[side].*member)[i] -= step;
          worst = std::fmax(worst, std::fabs((loss(more) - loss(less)) / (2.0 * 0x1p-8) - gradient[i]));
        }
      };
      for (std::size_t side = 0; side < 2; ++side) {
        check(side, &Weights::input, reference.gradients[side].input);
        check(side, &Weights::recurrent, reference.gradients[side].recurrent);
        check(side, &Weights::bias, reference.gradients[side].bias);
        check(side, &Weights::candidate_bias, reference.gradients[side].candidate_bias);
        check(side, &Weights::projection, reference.gradients[side].projection);
      }
      expect(worst < 1e-4, "the reference's gradients of " + name_of(shape) + " against differences: " + std::to_string(worst));
    }
}

void check(const RnnShape& shape, const EmulatedGpu& gpu, bool persistent, double tolerance = 1e-5, bool first_state = false) {
  const std::string name = name_of(shape) + ", " + std::to_string(gpu.multiprocessors) + " multiprocessors, schedule " +
                           std::to_string(static_cast<int>(gpu.schedule));
  const LayerCase one(shape, 7, first_state);
  try {
    const Differences found = one.run(*emulated_machine(gpu));
    expect(found.persistent_forward == persistent, name + ": " + (persistent ? "persistent" : "single steps"));
    expect(found.output <= tolerance, name + ": outputs off by " + std::to_string(found.output * 1e6) + "e-6");
    expect(found.gradients <= tolerance, name + ": gradients off by " + std::to_string(found.gradients * 1e6) + "e-6");
  } catch (const std::exception& error) {
    expect(false, name + ": " + error.what());
  }
}

constexpr Recurrence kEvery[] = {Recurrence::kLstm, Recurrence::kGru, Recurrence::kCanonicalGru, Recurrence::kTanh, Recurrence::kRelu};

void sizes_blocks_and_schedules() {
  for (const Recurrence recurrence : kEvery) {
    const auto shape = [&](int inputs, int hidden, int batch, int steps, bool both = false) {
      return RnnShape{.recurrence = recurrence,
                      .inputs = inputs,
                      .hidden = hidden,
                      .bidirectional = both,
                      .batch = batch,
                      .steps = steps,
                      .training = true};
    };
    check(shape(5, 1, 1, 1), {.multiprocessors = 1}, true);
    check(shape(3, 24, 3, 4), {.multiprocessors = 8}, true, 1e-5, true);
    check(shape(3, 24, 3, 4), {.multiprocessors = 3, .schedule = Schedule::kBackwards}, true);
    check(shape(4, 33, 5, 3), {.multiprocessors = 20, .schedule = Schedule::kLastFirst}, true);
    check(shape(2, 20, 7, 5, true), {.multiprocessors = 12, .schedule = Schedule::kRandom, .seed = 3}, true, 1e-5, true);
    check(shape(2, 40, 2, 6), {.multiprocessors = 16, .schedule = Schedule::kRandom, .seed = 4}, true);
  }
  check({.recurrence = Recurrence::kLstm, .inputs = 8, .hidden = 64, .batch = 2, .steps = 6, .training = true}, {.multiprocessors = 32},
        true);
}

// Every layout of the emulator's kernels, not only the cheapest.
void every_layout() {
  int layouts = 0;
  for (const Recurrence recurrence : kEvery) {
    const RnnShape shape{.recurrence = recurrence, .inputs = 2, .hidden = 22, .batch = 3, .steps = 3, .training = true};
    const LayerCase one(shape, 11);
    const std::unique_ptr<Machine> machine = emulated_machine({.multiprocessors = 40});
    for (const bool backward : {false, true})
      for (const Layout& layout :
           ranked_layouts(machine->kernels(), machine->limits(), {recurrence, backward, Precision::kFloat, 22, 3, 1}, titan_v())) {
        if (layout.threads > 128 && layout.slices != 4) continue;
        const Differences found = one.run(*machine, [&](RnnLayer& layer) { layer.use_layout(backward, layout); });
        expect(found.output <= 1e-5 && found.gradients <= 1e-5, name_of(layout) + ": off by " + std::to_string(found.output * 1e6) +
                                                                    "e-6, gradients " + std::to_string(found.gradients * 1e6) + "e-6");
        ++layouts;
      }
  }
  expect(layouts >= 40, std::to_string(layouts) + " layouts");
}

// Blocks in clusters: where units, columns and samples do not divide, both ways, and when a cluster never comes.
void clusters() {
  using Sizes = std::tuple<Recurrence, Precision, int, int>;
  for (const auto& [recurrence, precision, hidden, batch] :
       {Sizes(Recurrence::kLstm, Precision::kFloat, 22, 3), Sizes(Recurrence::kLstm, Precision::kFloat, 70, 1),
        Sizes(Recurrence::kGru, Precision::kFloat, 37, 2), Sizes(Recurrence::kLstm, Precision::kBFloat16, 40, 9)}) {
    const double tolerance = precision == Precision::kFloat ? 1e-5 : 3e-2;
    const RnnShape shape{.recurrence = recurrence,
                         .inputs = 2,
                         .hidden = hidden,
                         .bidirectional = batch == 3,
                         .batch = batch,
                         .steps = 4,
                         .precision = precision,
                         .training = true};
    const LayerCase one(shape, 11, true);
    for (const Schedule schedule : {Schedule::kInTurn, Schedule::kLastFirst, Schedule::kRandom}) {
      const std::unique_ptr<Machine> machine = emulated_machine({.multiprocessors = 48, .clusters = 6, .schedule = schedule});
      int chosen = 0;
      const Differences found = one.run(*machine, [&](RnnLayer& layer) {
        for (const bool backward : {false, true})
          for (const Layout& layout : ranked_layouts(machine->kernels(), machine->limits(),
                                                     {recurrence, backward, precision, hidden, batch, shape.sides()}, titan_v())) {
            if (layout.kernel.shape.cluster == 1 || layout.threads > 128) continue;
            layer.use_layout(backward, layout);
            ++chosen;
            break;
          }
      });
      expect(chosen == 2 && found.output <= tolerance && found.gradients <= tolerance,
             name_of(shape) + ", in clusters: " + std::to_string(chosen) + " layouts, off by " + std::to_string(found.output * 1e6) +
                 "e-6, gradients " + std::to_string(found.gradients * 1e6) + "e-6");
    }
  }
  for (const int clusters : {0, 1})
    for (const Layout& layout : ranked_layouts(emulated_machine({})->kernels(), {48, 227 * 1024, clusters},
                                               {Recurrence::kLstm, false, Precision::kFloat, 200, 1, 1}, titan_v()))
      expect(layout.kernel.shape.cluster == 1 || layout.blocks(1) <= 8 * clusters, name_of(layout) + " with room for no more clusters");
}

void projection_and_inference() {
  check({.inputs = 3, .hidden = 20, .projection = 7, .batch = 3, .steps = 4, .training = true}, {.multiprocessors = 10}, true);
  check({.inputs = 3, .hidden = 20, .projection = 7, .bidirectional = true, .batch = 2, .steps = 4, .training = true},
        {.multiprocessors = 20}, true);
  for (const Recurrence recurrence : kEvery)
    check({.recurrence = recurrence, .inputs = 3, .hidden = 24, .batch = 4, .steps = 4}, {.multiprocessors = 10}, true, 1e-5, true);
}

// Half formats: states are rounded in every step, here and not in the reference.
void short_formats() {
  for (const auto& [recurrence, precision] :
       {std::pair(Recurrence::kLstm, Precision::kHalf), std::pair(Recurrence::kGru, Precision::kBFloat16),
        std::pair(Recurrence::kCanonicalGru, Precision::kBFloat16), std::pair(Recurrence::kTanh, Precision::kHalf)}) {
    const double tolerance = precision == Precision::kHalf ? 4e-3 : 3e-2;
    check({.recurrence = recurrence, .inputs = 4, .hidden = 24, .batch = 3, .steps = 4, .precision = precision, .training = true},
          {.multiprocessors = 8}, true, tolerance, true);
    check({.recurrence = recurrence, .inputs = 4, .hidden = 31, .batch = 17, .steps = 3, .precision = precision, .training = true},
          {.multiprocessors = 9, .schedule = Schedule::kRandom}, true, tolerance);
  }
}

void what_does_not_fit() {
  for (const Recurrence recurrence : kEvery)
    check({.recurrence = recurrence, .inputs = 3, .hidden = 30, .bidirectional = true, .batch = 3, .steps = 3, .training = true},
          {.multiprocessors = 1, .shared_bytes = 256}, false, 1e-5, true);
  const std::string reason = why_not({132, 232448}, {Recurrence::kLstm, false, Precision::kFloat, 4096, 1, 1});
  expect(reason.find("256 MiB") != std::string::npos && reason.find("one step at a time") != std::string::npos, reason);
}

void refusals() {
  const auto refused = [](const RnnShape& shape, const std::string& part) {
    try {
      require_sensible(shape);
      expect(false, name_of(shape) + " must be refused");
    } catch (const RnnError& error) {
      expect(error.kind() == RnnFailure::kUnsupportedSize && std::string(error.what()).find(part) != std::string::npos, error.what());
    }
  };
  refused({.inputs = 4, .hidden = 0, .batch = 1, .steps = 1}, "0 units; give at least 1");
  refused({.inputs = 4, .hidden = 4, .batch = -1, .steps = 1}, "-1 samples");
  refused({.inputs = 4, .hidden = 4, .batch = 1, .steps = 0}, "0 steps");
  refused({.inputs = 4, .hidden = 4, .projection = 5, .batch = 1, .steps = 1}, "projection of 4 units to 5");
  refused({.inputs = 4, .hidden = 4, .projection = 2, .batch = 1, .steps = 1, .precision = Precision::kHalf}, "fp32");
  refused({.inputs = 4, .hidden = 4, .batch = 1, .steps = 1 << 25}, "split the sequence");
}

// A block that never comes: the others' waiting must end, and say so.
void hung_exchange() {
  for (const auto& [one_exchange, cluster] : {std::pair(false, 1), std::pair(true, 1), std::pair(false, 8)}) {
    const RnnShape shape{
        .recurrence = one_exchange ? Recurrence::kCanonicalGru : Recurrence::kLstm, .inputs = 2, .hidden = 24, .batch = 2, .steps = 4};
    const LayerCase one(shape, 5);
    const std::unique_ptr<Machine> machine = emulated_machine({.multiprocessors = 40, .clusters = 5, .missing_blocks = 1});
    std::string message;
    try {
      one.run(*machine, [&](RnnLayer& layer) {
        for (const Layout& layout :
             ranked_layouts(machine->kernels(), machine->limits(), {shape.recurrence, false, Precision::kFloat, 24, 2, 1}, titan_v())) {
          if (layout.unit_tiles < 3 || layout.sample_tiles > 1 || (layout.kernel.shape.width > 0) != one_exchange ||
              layout.kernel.shape.cluster != cluster || layout.unit_tiles <= cluster)
            continue;
          layer.use_layout(false, layout);
          layer.set_patience(200000);
          return;
        }
        expect(false, "a layout of several blocks");
      });
    } catch (const RnnError& error) {
      message = error.what();
      expect(error.kind() == RnnFailure::kHungExchange, message);
    }
    expect(message.find("hung exchange: in step") == 0, "a missing block: \"" + message + "\"");
  }
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  reference_is_right();
  sizes_blocks_and_schedules();
  every_layout();
  clusters();
  projection_and_inference();
  short_formats();
  what_does_not_fit();
  refusals();
  hung_exchange();
  return report("recurrent layers on the emulator");
}
