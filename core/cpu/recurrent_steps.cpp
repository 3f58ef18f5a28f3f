#include "core/cpu/recurrent_steps.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/cpu/cell_loops.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

KeepPlan::KeepPlan(const RecurrentShape& s) {
  record = add(s.steps * s.samples * s.record * s.hidden);
  h = add((s.steps + 1) * s.samples * s.features);
  if (s.has_cell_state()) c = add((s.steps + 1) * s.samples * s.hidden);
  if (s.projects) m = add(s.steps * s.samples * s.hidden);
  if (s.projects) dp = add(s.steps * s.samples * s.features);
  dh = add(s.samples * s.features);
  if (s.has_cell_state()) dc = add(s.samples * s.hidden);
  if (s.projects || (s.cell == CellKind::kGru && !s.reset_after)) scratch = add(s.samples * s.hidden);
}

int64_t KeepPlan::add(int64_t floats) {
  constexpr int64_t kLine = static_cast<int64_t>(kAlignment / sizeof(float));
  const int64_t offset = floats_;
  floats_ += (floats + kLine - 1) / kLine * kLine;
  return offset;
}

StepWeights::StepWeights(const RecurrentShape& s, int64_t lanes, PackedAs as) : bias(to_size(s.record * s.hidden)), shape_(s) {
  const int64_t plain = s.cell == CellKind::kGru ? 2 : s.gates;
  std::vector<PackedMatrix::Block> blocks;
  for (int64_t gate = 0; gate < plain; ++gate) blocks.push_back({s.hidden, gate * s.hidden});
  hidden = PackedMatrix(s.features, blocks, lanes, as);
  hidden_back = PackedMatrix(plain * s.hidden, {{s.features, 0}}, lanes, as);
  if (s.cell == CellKind::kGru) {
    candidate = PackedMatrix(s.hidden, {{s.hidden, (s.reset_after ? 3 : 2) * s.hidden}}, lanes, as);
    candidate_back = PackedMatrix(s.hidden, {{s.hidden, 0}}, lanes, as);
  }
  if (s.projects) {
    projection = PackedMatrix(s.hidden, {{s.features, 0}}, lanes, as);
    projection_back = PackedMatrix(s.features, {{s.hidden, 0}}, lanes, as);
  }
}

void StepWeights::pack(int threads, const float* hidden_weight, const float* projection_weight) {
  const int64_t columns = shape_.features;
  const float* const candidate_weight = hidden_weight + 2 * shape_.hidden * columns;
  run_team(threads, [&](const Team& team) {
    const auto own = [&team](const PackedMatrix& matrix) { return matrix.share(team.thread, team.threads); };
    hidden.pack(hidden_weight, columns, 1, own(hidden));
    hidden_back.pack(hidden_weight, 1, columns, own(hidden_back));
    if (shape_.cell == CellKind::kGru) {
      candidate.pack(candidate_weight, columns, 1, own(candidate));
      candidate_back.pack(candidate_weight, 1, columns, own(candidate_back));
    }
    if (!shape_.projects) return;
    projection.pack(projection_weight, shape_.hidden, 1, own(projection));
    projection_back.pack(projection_weight, 1, shape_.hidden, own(projection_back));
  });
}

// A thread has the panels [begin, end) of every gate, and with them the units [first, first + count); of the features, for
// a projected lstm, the same share.
struct StepLoop::Part {
  Part(const StepLoop& the_loop, const Team& the_team, std::span<const int64_t> the_valid)
      : loop(the_loop),
        s(the_loop.s_),
        w(the_loop.w_),
        team(the_team),
        valid(the_valid),
        longest(*std::ranges::max_element(the_valid)),
        per_gate(panels_of(s.hidden)),
        units(share(per_gate)),
        columns(share(panels_of(s.features))),
        first(std::min(units.begin * lanes(), s.hidden)),
        count(std::min(units.end * lanes(), s.hidden) - first),
        first_feature(std::min(columns.begin * lanes(), s.features)),
        features(std::min(columns.end * lanes(), s.features) - first_feature) {}

  int64_t lanes() const { return w.hidden.lanes(); }
  int64_t panels_of(int64_t wide) const { return (wide + lanes() - 1) / lanes(); }
  PanelRange share(int64_t panels) const { return {panels * team.thread / team.threads, panels * (team.thread + 1) / team.threads}; }
  int64_t record_width() const { return s.record * s.hidden; }
  float* gate(int64_t t, int64_t n, int64_t index) const { return loop.record(t) + n * record_width() + index * s.hidden + first; }
  float* dh() const { return loop.keep_ + loop.plan_.dh; }
  float* dc() const { return loop.keep_ + loop.plan_.dc; }
  float* scratch() const { return loop.keep_ + loop.plan_.scratch; }

  // Rows of the samples, `width` apart.
  static ConstRows from(const float* data, int64_t width) { return {data, RowSteps::plain(width)}; }
  static Rows into(float* data, int64_t width) { return {data, RowSteps::plain(width)}; }

  // record(t) += h' U, the gates of this thread's units. Before the first step h' may be zero, but the sum is made anyway:
  // zero or carried, it takes the same way.
  void add_hidden_product(int64_t t) const {
    const auto add = [&](PanelRange panels) {
      multiply_packed(from(loop.h_before(t), s.features), s.samples, w.hidden, panels, into(loop.record(t), record_width()), Into::kAdd);
    };
    if (team.threads == 1) return add(w.hidden.all());  // one after the other, all gates are one stretch of panels
    for (int64_t g = 0; g * per_gate < w.hidden.panels(); ++g) add({g * per_gate + units.begin, g * per_gate + units.end});
  }
  // dh = or += errors x U of this thread's features.
  void send_back(int64_t t, Into how) const {
    multiply_packed(from(loop.record(t), record_width()), s.samples, w.hidden_back, columns, into(dh(), s.features), how);
  }
  void clear_dh() const {
    for (int64_t n = 0; n < s.samples; ++n) std::fill_n(dh() + n * s.features + first_feature, features, 0.0f);
    for (int64_t n = 0; s.has_cell_state() && n < s.samples; ++n) std::fill_n(dc() + n * s.hidden + first, count, 0.0f);
  }
  // Nobody waits for an error from the first step, and none passes a cut.
  bool stops(int64_t t) const { return t == loop.first_step() || s.cuts_before(loop.direction_, t); }

  // What a step leaves to the next, and the output.
  void copy_state(int64_t t, int64_t n) const {
    std::copy_n(loop.h_before(t) + n * s.features + first_feature, features, loop.h(t) + n * s.features + first_feature);
    if (s.has_cell_state()) std::copy_n(loop.c_before(t) + n * s.hidden + first, count, loop.c(t) + n * s.hidden + first);
  }
  void write_output(int64_t t, int64_t n, float* y) const {
    float* const to = y + loop.y_offset(n, t) + first_feature;
    if (t < fast_item(valid, n))
      std::copy_n(loop.h(t) + n * s.features + first_feature, features, to);
    else
      std::fill_n(to, features, 0.0f);
  }
  void add_output_error(int64_t t, int64_t n, const float* dy, float* to) const {
    if (t < fast_item(valid, n)) add_to(to + n * s.features + first_feature, dy + loop.y_offset(n, t) + first_feature, features);
  }
  void clear_record(int64_t t, int64_t n) const {
    for (int64_t g = 0; g < s.record; ++g) std::fill_n(gate(t, n, g), count, 0.0f);
  }

  float hard_slope() const { return s.hard_gates ? static_cast<float>(s.gate_slope) : 0.0f; }
  LstmGates lstm_gates(int64_t t, int64_t n) const { return {gate(t, n, 0), gate(t, n, 1), gate(t, n, 2), gate(t, n, 3), hard_slope()}; }
  GruGates gru_gates(int64_t t, int64_t n) const { return {gate(t, n, 0), gate(t, n, 1), gate(t, n, 2), gate(t, n, 3), hard_slope()}; }

  template <typename Visit>
  void for_each_valid(int64_t t, Visit visit) const {
    for (int64_t n = 0; n < s.samples; ++n)
      if (t < fast_item(valid, n)) visit(n);
  }

  void forward(int64_t t, float* y) const {
    if (t < longest) {
      switch (s.cell) {
        case CellKind::kLstm: forward_lstm(t); break;
        case CellKind::kGru: forward_gru(t); break;
        default: forward_vanilla(t); break;
      }
    }
    for (int64_t n = 0; n < s.samples; ++n) {
      if (t >= fast_item(valid, n)) copy_state(t, n);
      write_output(t, n, y);
    }
    team.wait();
  }

  void forward_lstm(int64_t t) const {
    add_hidden_product(t);
    float* const out = s.projects ? loop.m(t) : loop.h(t);
    for_each_valid(t, [&](int64_t n) {
      const int64_t at = n * s.hidden + first;
      lstm_forward(lstm_gates(t, n), loop.c_before(t) + at, loop.c(t) + at, out + at, count);
    });
    if (!s.projects) return;
    for (int64_t n = 0; n < s.samples; ++n)
      if (t >= fast_item(valid, n)) std::fill_n(out + n * s.hidden + first, count, 0.0f);
    team.wait();
    multiply_packed(from(loop.m(t), s.hidden), s.samples, w.projection, columns, into(loop.h(t), s.features), Into::kOverwrite);
  }

  void forward_gru(int64_t t) const {
    add_hidden_product(t);
    const auto at = [&](int64_t n) { return n * s.hidden + first; };
    if (s.reset_after) {
      multiply_packed(from(loop.h_before(t), s.hidden), s.samples, w.candidate, units, into(loop.record(t), record_width()),
                      Into::kOverwrite, w.bias.data());
      for_each_valid(t, [&](int64_t n) { gru_forward_reset_after(gru_gates(t, n), loop.h_before(t) + at(n), loop.h(t) + at(n), count); });
      return;
    }
    for_each_valid(t, [&](int64_t n) { gru_forward_gates(gru_gates(t, n), loop.h_before(t) + at(n), count); });
    team.wait();
    multiply_packed(from(loop.record(t) + 3 * s.hidden, record_width()), s.samples, w.candidate, units,
                    into(loop.record(t), record_width()), Into::kAdd);
    for_each_valid(t, [&](int64_t n) { gru_forward_state(gru_gates(t, n), loop.h_before(t) + at(n), loop.h(t) + at(n), count); });
  }

  void forward_vanilla(int64_t t) const {
    add_hidden_product(t);
    const bool relu = s.cell == CellKind::kVanillaRelu;
    for_each_valid(t, [&](int64_t n) { vanilla_forward(relu, gate(t, n, 0), loop.h(t) + n * s.hidden + first, count); });
  }

  void back(int64_t t, const float* dy) const {
    for (int64_t n = 0; n < s.samples; ++n)
      if (t >= fast_item(valid, n)) clear_record(t, n);
    if (t >= longest) {
      for (int64_t n = 0; s.projects && n < s.samples; ++n) std::fill_n(loop.dp(t) + n * s.features + first_feature, features, 0.0f);
      return;
    }
    for (int64_t n = 0; n < s.samples; ++n) add_output_error(t, n, dy, dh());
    switch (s.cell) {
      case CellKind::kLstm: back_lstm(t); break;
      case CellKind::kGru: back_gru(t); break;
      default: back_vanilla(t); break;
    }
  }

  void back_lstm(int64_t t) const {
    const float* dm = dh();
    if (s.projects) {
      for (int64_t n = 0; n < s.samples; ++n)
        std::copy_n(dh() + n * s.features + first_feature, features, loop.dp(t) + n * s.features + first_feature);
      team.wait();
      multiply_packed(from(loop.dp(t), s.features), s.samples, w.projection_back, units, into(scratch(), s.hidden), Into::kOverwrite);
      dm = scratch();
    }
    for_each_valid(t, [&](int64_t n) {
      const int64_t at = n * s.hidden + first;
      lstm_back(lstm_gates(t, n), loop.c_before(t) + at, loop.c(t) + at, dm + at, dc() + at, count);
    });
    team.wait();
    if (stops(t)) return clear_dh();
    send_back(t, Into::kOverwrite);
  }

  void back_gru(int64_t t) const {
    const auto at = [&](int64_t n) { return n * s.hidden + first; };
    if (s.reset_after) {
      for_each_valid(t, [&](int64_t n) { gru_back_reset_after(gru_gates(t, n), loop.h_before(t) + at(n), dh() + at(n), count); });
      team.wait();
      if (stops(t)) return clear_dh();
      multiply_packed(from(loop.record(t) + 3 * s.hidden, record_width()), s.samples, w.candidate_back, columns, into(dh(), s.hidden),
                      Into::kAdd);
    } else {
      for_each_valid(t, [&](int64_t n) { gru_back_state(gru_gates(t, n), loop.h_before(t) + at(n), dh() + at(n), count); });
      team.wait();
      multiply_packed(from(loop.record(t) + 2 * s.hidden, record_width()), s.samples, w.candidate_back, units, into(scratch(), s.hidden),
                      Into::kOverwrite);
      for_each_valid(t,
                     [&](int64_t n) { gru_back_gates(gru_gates(t, n), loop.h_before(t) + at(n), scratch() + at(n), dh() + at(n), count); });
      team.wait();
      if (stops(t)) return clear_dh();
    }
    send_back(t, Into::kAdd);
  }

  void back_vanilla(int64_t t) const {
    const bool relu = s.cell == CellKind::kVanillaRelu;
    for_each_valid(t, [&](int64_t n) {
      const int64_t at = n * s.hidden + first;
      vanilla_back(relu, loop.h(t) + at, dh() + at, gate(t, n, 0), count);
    });
    team.wait();
    if (stops(t)) return clear_dh();
    send_back(t, Into::kOverwrite);
  }

  const StepLoop& loop;
  const RecurrentShape& s;
  const StepWeights& w;
  Team team;
  std::span<const int64_t> valid;
  int64_t longest;
  int64_t per_gate;    // panels
  PanelRange units;    // of each gate, and of the candidate
  PanelRange columns;  // of the features
  int64_t first, count;
  int64_t first_feature, features;
};

void StepLoop::forward(int threads, StepRange steps, std::span<const int64_t> valid, float* y) const {
  run_team(threads, [&](const Team& team) {
    const Part part(*this, team, valid);
    for (int64_t i = 0; i < steps.size(); ++i) part.forward(direction_ == 0 ? steps.begin + i : steps.end - 1 - i, y);
  });
}

void StepLoop::back(int threads, StepRange steps, std::span<const int64_t> valid, const float* dy) const {
  run_team(threads, [&](const Team& team) {
    const Part part(*this, team, valid);
    if (direction_ == 0 ? steps.end == s_.steps : steps.begin == 0) part.clear_dh();
    for (int64_t i = 0; i < steps.size(); ++i) part.back(direction_ == 0 ? steps.end - 1 - i : steps.begin + i, dy);
  });
}

}  // namespace millrace::cpu
