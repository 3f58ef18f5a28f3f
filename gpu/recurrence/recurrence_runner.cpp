#include "gpu/recurrence/recurrence_runner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "gpu/rnn/steps.h"

namespace millrace::gpu {

namespace {

constexpr unsigned kUnwritten = 0xFF;  // the mark of what kernels have not published yet, in every byte

rnn::Recurrence recurrence_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kLstm: return rnn::Recurrence::kLstm;
    case RecurrentCell::kGru: return rnn::Recurrence::kGru;
    case RecurrentCell::kCanonicalGru: return rnn::Recurrence::kCanonicalGru;
    case RecurrentCell::kTanh: return rnn::Recurrence::kTanh;
    case RecurrentCell::kRelu: break;
  }
  return rnn::Recurrence::kRelu;
}

rnn::Precision format_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat16: return rnn::Precision::kHalf;
    case Precision::kBfloat16: return rnn::Precision::kBFloat16;
    case Precision::kFloat32:
    case Precision::kTensorFloat32: break;
  }
  return rnn::Precision::kFloat;
}

// Runs `call`, with errors of gpu/rnn as failures.
template <typename Call>
decltype(auto) as_failures(Call call) {
  try {
    return call();
  } catch (const rnn::RnnError& error) {
    throw Failure(error.kind() == rnn::RnnFailure::kMissingPart ? Failure::Kind::kMissingLibrary : Failure::Kind::kBroken,
                  std::string("a recurrence on the GPU: ") + error.what());
  }
}

rnn::Problem problem_of(const RecurrenceGeometry& g) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (g.hidden < 1 || g.samples < 1 || g.sides < 1 || g.sides > 2 || g.sums() * g.hidden > kMost || g.samples * g.sums() > kMost)
    throw Failure(Failure::Kind::kBroken, "a recurrence of " + std::to_string(g.hidden) + " units and " + std::to_string(g.samples) +
                                              " samples is beyond what its kernels count; take fewer samples at a time, or smaller layers");
  return {.recurrence = recurrence_of(g.cell),
          .precision = format_of(g.precision),
          .hidden = static_cast<int>(g.hidden),
          .batch = static_cast<int>(g.samples),
          .sides = static_cast<int>(g.sides)};
}

}  // namespace

// Layouts for a geometry, and what its kernels want besides the layer's memory.
struct RecurrenceRunner::Chosen {
  struct SideMemory {
    float* later = nullptr;  // errors that later steps send to the call's last state
    float* partial = nullptr;
    float* update_gate = nullptr;
    unsigned* flags = nullptr;
  };

  Chosen(rnn::Machine& on, const RecurrenceGeometry& geometry) : machine(on), steps(on, problem_of(geometry), true, on.constants()) {
    const auto still = static_cast<size_t>(geometry.samples * geometry.hidden);
    // Canonical GRUs of one exchange per step hand partial sums of all tiles over.
    const auto& layout = steps.layout(false);
    if (layout && layout->kernel.shape.width > 0) {
      flag_count = static_cast<size_t>(layout->sample_tiles) * static_cast<size_t>(layout->unit_tiles);
      partial_count = 2 * static_cast<size_t>(layout->unit_tiles) * still;
    }
    try {
      for (int64_t s = 0; s < geometry.sides; ++s) {
        SideMemory& side = sides[static_cast<size_t>(s)];
        side.later = static_cast<float*>(take(still * sizeof(float)));
        if (flag_count == 0) continue;
        side.partial = static_cast<float*>(take(partial_count * sizeof(float)));
        side.update_gate = static_cast<float*>(take(2 * still * sizeof(float)));
        side.flags = static_cast<unsigned*>(take(flag_count * sizeof(unsigned)));
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~Chosen() { release(); }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

  void* take(size_t bytes) { return memory.emplace_back(machine.allocate(bytes)); }
  void release() {
    for (void* piece : memory) machine.release(piece);
    memory.clear();
  }

  rnn::Machine& machine;
  rnn::Steps steps;
  std::array<SideMemory, 2> sides;
  size_t flag_count = 0, partial_count = 0;
  std::vector<void*> memory;
};

RecurrenceRunner::RecurrenceRunner(rnn::Machine& machine, unsigned long long patience_nanoseconds)
    : machine_(machine), patience_(patience_nanoseconds) {
  as_failures([&] {
    hung_ = static_cast<unsigned*>(machine_.allocate(sizeof(unsigned)));
    machine_.fill(hung_, 0, sizeof(unsigned));
  });
}

RecurrenceRunner::~RecurrenceRunner() {
  chosen_.clear();
  machine_.release(hung_);
}

RecurrenceRunner::Key RecurrenceRunner::key_of(const RecurrenceGeometry& geometry) {
  return {geometry.cell, geometry.samples, geometry.hidden, geometry.sides, geometry.precision};
}

RecurrenceRunner::Chosen& RecurrenceRunner::chosen(const RecurrenceGeometry& geometry) {
  std::unique_ptr<Chosen>& known = chosen_[key_of(geometry)];
  if (known == nullptr) known = std::make_unique<Chosen>(machine_, geometry);
  return *known;
}

RecurrenceChoice RecurrenceRunner::choose(const RecurrenceGeometry& geometry) {
  return as_failures([&] {
    const auto choice_of = [&](const RecurrenceGeometry& of) {
      const rnn::Steps& steps = chosen(of).steps;
      return RecurrenceChoice{of.precision, steps.layout(false).has_value(), steps.layout(true).has_value(), steps.how(false),
                              steps.how(true)};
    };
    const RecurrenceChoice choice = choice_of(geometry);
    if (!is_narrow(geometry.precision) || (choice.at_once_forward && choice.at_once_back)) return choice;
    // One by one, steps read their weights again every time: half as many bytes, and still many times what all at once takes in fp32.
    RecurrenceGeometry wide = geometry;
    wide.precision = Precision::kFloat32;
    RecurrenceChoice in_floats = choice_of(wide);
    const bool better = in_floats.at_once_forward && in_floats.at_once_back;
    chosen_.erase(key_of(better ? geometry : wide));
    return better ? in_floats : choice;
  });
}

void RecurrenceRunner::run(const Recurrence& call) {
  const RecurrenceGeometry& g = call.geometry;
  if (call.steps == 0) return;
  as_failures([&] {
    Chosen& mine = chosen(g);
    const int64_t still = g.samples * g.hidden;
    const auto bytes = [&](int64_t factors) { return static_cast<size_t>(factors * bytes_of(g.precision)); };
    rnn::Parameters p;
    p.hidden = static_cast<int>(g.hidden);
    p.batch = static_cast<int>(g.samples);
    p.steps = static_cast<int>(call.steps);
    p.output_stride = static_cast<int>(g.hidden);
    p.cell_steps = 1;
    p.training = 1;
    p.hung = hung_;
    p.patience = patience_;
    for (int64_t s = 0; s < g.sides; ++s) {
      const RecurrentSide& from = call.side[s];
      const Chosen::SideMemory& memory = mine.sides[static_cast<size_t>(s)];
      rnn::Side& side = p.side[s];
      side.weights = from.weights;
      side.gates = from.gates;
      side.output = from.states;
      side.first_state = from.first_state;
      side.cell = from.cells;
      side.first_cell = from.first_cell;
      side.candidate_bias = from.candidate_bias;
      side.candidate = from.candidate;
      side.reset_state = from.reset_states;
      side.partial = memory.partial;
      side.update_gate = memory.update_gate;
      side.flags = memory.flags;
      if (!call.back) {
        machine_.fill(from.states, kUnwritten, bytes(call.steps * still));
        if (from.reset_states != nullptr) machine_.fill(from.reset_states, kUnwritten, bytes(call.steps * still));
        if (memory.flags != nullptr) machine_.fill(memory.flags, 0, mine.flag_count * sizeof(unsigned));
        continue;
      }
      side.output_gradient = from.state_errors;
      side.gate_gradient = from.gate_errors;
      side.input_gradient = from.input_errors;
      side.carry = from.carry;
      machine_.fill(from.gate_errors, kUnwritten, bytes(call.steps * g.samples * g.sums()));
      if (from.later_errors == nullptr) continue;
      rnn::MatrixJob later;
      later.left = from.later_errors;
      later.left_row = g.sums();
      later.left_column = 1;
      later.right = from.weights;
      later.right_row = g.hidden;
      later.right_column = 1;
      later.result = memory.later;
      later.result_row = g.hidden;
      later.rows = p.batch;
      later.columns = p.hidden;
      later.depth = static_cast<int>(g.cell == RecurrentCell::kCanonicalGru ? 2 * g.hidden : g.sums());
      machine_.multiply(later, format_of(g.precision));
      side.last_state_gradient = memory.later;
    }
    mine.steps.run(call.back, p);
  });
}

Failure hung_recurrence(unsigned hung) {
  return {Failure::Kind::kBroken, "a recurrence on the GPU hung: in step " + std::to_string(hung - 1) +
                                      " of a call a block waited for another one in vain; the GPU is shared with other work or not all "
                                      "blocks were resident: free the GPU and run again"};
}

}  // namespace millrace::gpu
