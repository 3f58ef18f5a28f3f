// Steps of some cells of a recurrent layer that several devices share: each sum in the order of recurrent.cpp.
#include "core/device/unit_steps.h"

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/cell_math.h"
#include "core/plan/parts.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class PlainUnits final : public UnitArithmetic {
 public:
  explicit PlainUnits(const KernelSpec& spec)
      : cell_(std::get<Recurrent>(spec.operation)),
        gates_(gates_of(cell_.cell)),
        own_(spec.units.size()),
        begin_(spec.units.begin),
        own_features_(features_of(cell_, spec.units).size()),
        directions_(to_size(cell_.directions())) {}

  void take(int64_t direction, bool back, const Weights& weights) override {
    Direction& d = directions_[at(direction)];
    (back ? d.columns : d.rows).assign(weights.hidden.begin(), weights.hidden.end());
    (back ? d.projection_columns : d.projection_rows).assign(weights.projection.begin(), weights.projection.end());
    d.input_bias.assign(weights.input_bias.begin(), weights.input_bias.end());
    d.hidden_bias.assign(weights.hidden_bias.begin(), weights.hidden_bias.end());
  }

  std::unique_ptr<Kept> forward(int64_t direction, std::span<const double> sums, std::span<const double> state, std::span<double> cell,
                                std::span<double> made) override {
    auto kept = std::make_unique<Step>();
    kept->cells.resize(at(own_));
    if (cell_.gate_activation == GateActivation::kHardSigmoid)
      advance(HardGate<T>{static_cast<T>(cell_.gate_slope)}, directions_[at(direction)], sums, state, cell, made, *kept);
    else
      advance(SigmoidGate<ExactMath<T>>{}, directions_[at(direction)], sums, state, cell, made, *kept);
    return kept;
  }

  void back(int64_t direction, const Kept& kept, std::span<const double> output_errors, std::span<const double> errors, bool product,
            std::span<double> carried, double, std::span<double> made) override {
    const auto& step = static_cast<const Step&>(kept);
    if (cell_.gate_activation == GateActivation::kHardSigmoid)
      go_back(HardGate<T>{static_cast<T>(cell_.gate_slope)}, directions_[at(direction)], step, output_errors, errors, product, carried,
              made);
    else
      go_back(SigmoidGate<ExactMath<T>>{}, directions_[at(direction)], step, output_errors, errors, product, carried, made);
  }

  void project(int64_t direction, std::span<const double> units, std::span<double> made) override {
    const std::vector<T>& rows = directions_[at(direction)].projection_rows;
    for (int64_t f = 0; f < own_features_; ++f) {
      T h{0};
      for (int64_t i = 0; i < cell_.hidden; ++i) h += rows[at(f * cell_.hidden + i)] * static_cast<T>(units[at(i)]);
      made[at(f)] = static_cast<double>(h);
    }
  }

  void back_features(int64_t direction, std::span<const double> output_errors, std::span<const double> errors, bool product, double,
                     std::span<double> made) override {
    for (int64_t f = 0; f < own_features_; ++f) {
      T dh{0};
      for (int64_t g = 0; product && g < gates_; ++g)
        add_column(directions_[at(direction)], g, f, errors.subspan(at(g * cell_.hidden), at(cell_.hidden)), dh);
      made[at(f)] = static_cast<double>(dh + static_cast<T>(output_errors[at(f)]));
    }
  }

  // Columns of the projection, by ascending feature; then as if there were no product with U.
  void back_units(int64_t direction, const Kept& kept, std::span<const double> feature_errors, std::span<double> carried,
                  double error_scale, std::span<double> made) override {
    const std::vector<T>& columns = directions_[at(direction)].projection_columns;
    std::vector<double> dm(at(own_));
    for (int64_t j = 0; j < own_; ++j) {
      T error{0};
      for (int64_t f = 0; f < cell_.features(); ++f) error += columns[at(f * own_ + j)] * static_cast<T>(feature_errors[at(f)]);
      dm[at(j)] = static_cast<double>(error);
    }
    back(direction, kept, dm, {}, false, carried, error_scale, made);
  }

 private:
  struct Direction {
    std::vector<T> rows, columns, input_bias, hidden_bias, projection_rows, projection_columns;
  };
  struct Cell {
    T gate[4] = {};  // of a gru the fourth is U h + b of the candidate
    T before = 0, now = 0;
  };
  struct Step final : Kept {
    std::vector<Cell> cells;
  };
  static size_t at(int64_t index) { return to_size(index); }

  // Sums start at `value`, products follow by ascending feature.
  T product_of(const Direction& d, int64_t gate, int64_t j, std::span<const double> state, T value) const {
    const T* const row = d.rows.data() + (gate * own_ + j) * cell_.features();
    for (int64_t i = 0; i < cell_.features(); ++i) value += row[i] * static_cast<T>(state[at(i)]);
    return value + d.hidden_bias[at(gate * own_ + j)];
  }

  template <typename Gate>
  void advance(const Gate& bound, const Direction& d, std::span<const double> sums, std::span<const double> state, std::span<double> cell,
               std::span<double> made, Step& step) const {
    for (int64_t j = 0; j < own_; ++j) {
      Cell& c = step.cells[at(j)];
      for (int64_t g = 0; g < gates_; ++g) {
        const T sum = static_cast<T>(sums[at(g * own_ + j)]) + d.input_bias[at(g * own_ + j)];
        const bool apart = cell_.cell == CellKind::kGru && g == 2;
        c.gate[g] = apart ? sum : product_of(d, g, j, state, sum);
        if (apart) c.gate[3] = product_of(d, g, j, state, T{0});
      }
      T h{0};
      switch (cell_.cell) {
        case CellKind::kLstm:
          c.before = static_cast<T>(cell[at(j)]);
          LstmCell<ExactMath<T>>::forward(bound, c.gate[0], c.gate[1], c.gate[2], c.gate[3], c.before, c.now, h);
          cell[at(j)] = static_cast<double>(c.now);
          break;
        case CellKind::kGru:
          c.before = static_cast<T>(state[at(begin_ + j)]);
          GruCell<ExactMath<T>>::forward_reset_after(bound, c.gate[2], c.gate[0], c.gate[1], c.gate[3], c.before, h);
          break;
        case CellKind::kVanillaRelu: h = c.now = VanillaCell<ExactMath<T>>::forward_relu(c.gate[0]); break;
        case CellKind::kVanillaTanh: h = c.now = VanillaCell<ExactMath<T>>::forward_tanh(c.gate[0]); break;
      }
      made[at(j)] = static_cast<double>(h);
    }
  }

  // To dh of a feature: its column of a gate's weights, by ascending row.
  void add_column(const Direction& d, int64_t gate, int64_t f, std::span<const double> errors, T& dh) const {
    for (int64_t i = 0; i < cell_.hidden; ++i)
      dh += static_cast<T>(errors[at(i)]) * d.columns[at((gate * cell_.hidden + i) * own_features_ + f)];
  }

  template <typename Gate>
  void go_back(const Gate& bound, const Direction& d, const Step& step, std::span<const double> output_errors,
               std::span<const double> errors, bool product, std::span<double> carried, std::span<double> made) const {
    const bool gru = cell_.cell == CellKind::kGru;
    const auto of = [&](int64_t vector) { return product ? errors.subspan(at(vector * cell_.hidden), at(cell_.hidden)) : errors; };
    for (int64_t j = 0; j < own_; ++j) {
      Cell c = step.cells[at(j)];
      T dh = gru ? static_cast<T>(carried[at(j)]) : T{0};
      if (product && gru) add_column(d, 2, j, of(3), dh);
      for (int64_t g = 0; product && g < (gru ? 2 : gates_); ++g) add_column(d, g, j, of(g), dh);
      dh += static_cast<T>(output_errors[at(j)]);
      switch (cell_.cell) {
        case CellKind::kLstm: {
          T dc = static_cast<T>(carried[at(j)]);
          LstmCell<ExactMath<T>>::back(bound, c.gate[0], c.gate[1], c.gate[2], c.gate[3], c.before, c.now, dh, dc);
          carried[at(j)] = static_cast<double>(dc);
          break;
        }
        case CellKind::kGru:
          GruCell<ExactMath<T>>::back_reset_after(bound, c.gate[2], c.gate[0], c.gate[1], c.gate[3], c.before, dh);
          carried[at(j)] = static_cast<double>(dh);
          break;
        case CellKind::kVanillaRelu: c.gate[0] = VanillaCell<ExactMath<T>>::back_relu(c.now, dh); break;
        case CellKind::kVanillaTanh: c.gate[0] = VanillaCell<ExactMath<T>>::back_tanh(c.now, dh); break;
      }
      for (int64_t v = 0; v < gates_ + (gru ? 1 : 0); ++v) made[at(v * own_ + j)] = static_cast<double>(c.gate[v]);
    }
  }

  Recurrent cell_;
  int64_t gates_, own_, begin_, own_features_;
  std::vector<Direction> directions_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_shared_steps(const KernelSpec& spec) {
  const auto& cell = std::get<Recurrent>(spec.operation);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "layer \"{}\": a reset before the product; several devices share steps with the reset behind it",
         spec.layer);
  TensorAccess access;
  access.make = [](const TensorSpec& tensor) { return std::make_unique<ReferenceTensor<T>>(tensor); };
  access.read = [](const Tensor& tensor) {
    const auto values = own<T>(&tensor).values();
    return std::vector<double>(values.begin(), values.end());
  };
  access.write = [](Tensor& tensor, std::span<const double> values) {
    std::ranges::transform(values, own<T>(&tensor).values().begin(), [](double value) { return static_cast<T>(value); });
  };
  return make_unit_steps(spec, std::make_unique<PlainUnits<T>>(spec), std::move(access), "plain loops, step by step", sizeof(T));
}

template std::unique_ptr<Kernel> make_shared_steps<float>(const KernelSpec&);
template std::unique_ptr<Kernel> make_shared_steps<double>(const KernelSpec&);

}  // namespace millrace::reference
