// Kernels on the emulator under ThreadSanitizer: a program that is always built with it, whatever the rest is built with,
// and exits 66 when it reports a race. Its argument says what to run: "clean", or which fault to plant.
//
//   races clean; races missing-barrier; races missing-barrier-in-cluster; races wrong-flag-order
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/gpu/rnn/layer_case.h"

namespace {

using namespace millrace::rnn;
using emulator::Schedule;

RnnShape shape_of(Recurrence recurrence, Precision precision = Precision::kFloat) {
  return {.recurrence = recurrence, .inputs = 2, .hidden = 8, .batch = 2, .steps = 3, .precision = precision, .training = true};
}

// Layouts of two to four blocks.
void run(const RnnShape& shape, const EmulatedGpu& gpu, bool one_exchange, int cluster = 1) {
  const LayerCase one(shape, 3);
  const std::unique_ptr<Machine> machine = emulated_machine(gpu);
  int chosen = 0;
  const Differences found = one.run(*machine, [&](RnnLayer& layer) {
    for (const bool backward : {false, true})
      for (const Layout& layout : ranked_layouts(machine->kernels(), machine->limits(),
                                                 {shape.recurrence, backward, shape.precision, shape.hidden, shape.batch, 1}, titan_v())) {
        const bool wanted = (!one_exchange || backward || layout.kernel.shape.width > 0) && layout.kernel.shape.cluster == cluster;
        if (layout.threads != 128 || layout.unit_tiles < 2 || layout.blocks(1) > (cluster > 1 ? 16 : 4) || !wanted) continue;
        layer.use_layout(backward, layout);
        ++chosen;
        break;
      }
  });
  std::printf("%s %s%s: outputs off by %g, gradients by %g\n", std::string(name_of(shape.recurrence)).c_str(),
              std::string(name_of(shape.precision)).c_str(), one_exchange ? ", one exchange" : "", found.output, found.gradients);
  if (chosen < 2) {
    std::printf("no layout of several blocks to judge\n");
    std::exit(1);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count == 2 ? arguments[1] : "";
  EmulatedGpu gpu{.multiprocessors = 16};
  if (what == "missing-barrier") {
    // Of the two barriers of every step, the one between gathering and multiplying.
    gpu.faulty_barrier_period = 2;
    gpu.faulty_barrier = 1;
    run(shape_of(Recurrence::kLstm), gpu, false);
  } else if (what == "missing-barrier-in-cluster") {
    // The one behind the products, before which nobody may gather anew.
    gpu.clusters = 2;
    gpu.faulty_barrier_period = 2;
    gpu.faulty_barrier = 1;
    run(shape_of(Recurrence::kLstm), gpu, false, kBlocksOfCluster);
  } else if (what == "wrong-flag-order") {
    gpu.faulty_release = true;
    run(shape_of(Recurrence::kCanonicalGru), gpu, true);
  } else if (what == "clean") {
    for (const Schedule schedule : {Schedule::kInTurn, Schedule::kBackwards, Schedule::kLastFirst, Schedule::kRandom}) {
      gpu.schedule = schedule;
      run(shape_of(Recurrence::kLstm), gpu, false);
      run(shape_of(Recurrence::kCanonicalGru), gpu, true);
    }
    gpu.schedule = Schedule::kRandom;
    gpu.clusters = 2;
    run(shape_of(Recurrence::kLstm), gpu, false, kBlocksOfCluster);
    gpu.clusters = 0;
    run(shape_of(Recurrence::kGru), gpu, false);
    run(shape_of(Recurrence::kCanonicalGru), gpu, false);
    run(shape_of(Recurrence::kRelu), gpu, false);
    RnnShape halves = shape_of(Recurrence::kLstm, Precision::kHalf);
    halves.hidden = 20;
    run(halves, gpu, false);
  } else {
    std::printf("usage: races clean|missing-barrier|missing-barrier-in-cluster|wrong-flag-order\n");
    return 2;
  }
  std::printf("%s: ran to the end\n", what.c_str());
  return 0;
}
