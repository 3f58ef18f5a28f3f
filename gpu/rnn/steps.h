// The steps of a recurrent layer, which wait for each other, on a machine: in one launch of a persistent kernel where the
// recurrent weights fit on the chip, one at a time where they do not. Everything around them is the caller's.
//
//   Steps steps(*machine, {.recurrence = Recurrence::kLstm, .hidden = 256, .batch = 8, .sides = 2}, true, titan_v());
//   steps.how(true)                             // what runs backward, or why nothing persistent does
//   steps.run(false, parameters);               // all but what a layout decides; prefilled as Side says
//
// A single step is a product (cuBLAS on a GPU) and a kernel for the cells, both of them queued. Owns what single steps hand
// over; the machine outlives it. Not for several threads.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "gpu/rnn/plan.h"

namespace millrace::rnn {

class Steps {
 public:
  // Layouts are the cheapest by the model; `backward` of the problem does not count.
  Steps(Machine& machine, const Problem& problem, bool training, const Gpu& constants);
  ~Steps();
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // Nothing: single steps.
  const std::optional<Layout>& layout(bool backward) const { return layouts_[backward ? 1 : 0]; }
  void use_layout(bool backward, const std::optional<Layout>& layout) { layouts_[backward ? 1 : 0] = layout; }
  std::string how(bool backward) const;

  // All sides: in one launch when they fit together, else one after the other.
  void run(bool backward, Parameters parameters);

 private:
  void allocate_sums();
  void single_steps(bool backward, const Parameters& parameters, int side);

  Machine& machine_;
  Problem problem_;
  std::array<std::optional<Layout>, 2> layouts_;
  float* sums_ = nullptr;  // of a single step
};

}  // namespace millrace::rnn
