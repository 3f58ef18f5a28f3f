// The least period that a ring can keep where parameters may live with other devices than their user: cuts and homes together, from both
// sides.
//
//   RingSolver::JointBisection bisection(solver, /*impossible=*/1e-3, std::move(best));
//   bisection.run(/*start=*/1.1e-3, Effort::kThorough);
//   bisection.best().period;
//   bisection.impossible();  // no period up to this one can be kept
//
// Places are looked at ever more finely until both ends meet, or so much work is done; the gap between them is what is not known. Borrows
// the solver. Internal to partitioner/hybrid.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "partitioner/hybrid/ring_solver.h"

namespace millrace {

class RingSolver::JointBisection {
 public:
  // Periods up to `impossible` are shown to be too short; `best` is what is known to work, if anything.
  JointBisection(const RingSolver& solver, double impossible, RingSolution best)
      : solver_(&solver), impossible_(impossible), best_(std::move(best)) {}

  void run(double start, Effort effort);

  const RingSolution& best() const { return best_; }
  double impossible() const { return impossible_; }
  bool decided() const { return decided_; }                         // where nothing was found: shown that there is nothing
  const std::vector<int64_t>& nearest() const { return nearest_; }  // cuts that came close then

 private:
  struct Level {
    int64_t cells;
    double tolerance;
  };
  // Places looked at per link, and how finely the period is bisected with them.
  static constexpr Level kLevels[] = {{24, 1e-3}, {96, 1e-6}, {384, 1e-6}};
  static constexpr double kExact = 1e-9;
  static constexpr double kCloseEnough = 1e-4;     // that more cells are not worth their time
  static constexpr int64_t kMostWork = 8'000'000;  // stretches weighed: a second or two

  JointAnswer::Verdict at(const Periods& periods, int64_t cells);
  void find_any(double start);
  void descend(int64_t cells, double tolerance);
  // The longest period that is shown to be too short.
  void raise(int64_t cells, double tolerance);
  // Where links set the pace, devices are balanced all the same.
  void speed_up_devices();

  const RingSolver* solver_;
  double impossible_;
  RingSolution best_;
  std::vector<int64_t> nearest_;
  bool joint_ = false;
  bool decided_ = false;
  bool every_place_ = true;  // of all probes of a level
  int64_t cells_ = 0;
  int64_t work_ = 0;
};

}  // namespace millrace
