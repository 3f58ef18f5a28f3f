#include "fpga/sbe/paper_equations.h"

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

int64_t paper_case(const PaperDesign& design) {
  return std::min<int64_t>(3, divided_up(design.shape.hidden * design.blocks, design.shape.columns()));
}

double paper_products_per_cycle(const PaperDesign& design) {
  const double npe = design.multipliers, nt = design.words_per_cycle, b = design.batch;
  const bool balanced = b >= npe / nt;
  const double streamed = balanced ? npe : b * nt;
  const auto nb = static_cast<double>(design.blocks);
  switch (paper_case(design)) {
    case 1: return streamed;
    case 2: return streamed * nb / (nb + 2);
    default: break;
  }
  const double alpha = static_cast<double>(design.shape.inputs) / static_cast<double>(design.shape.columns());
  return balanced ? npe * nt / (alpha * nt + (1 - alpha) * npe) : b * nt / (alpha + (1 - alpha) * b);
}

double paper_buffer_bits(const PaperDesign& design) {
  constexpr double kBits = 16;
  return static_cast<double>(design.shape.columns()) * (static_cast<double>(design.shape.rows()) + design.batch) * kBits * 2 /
         static_cast<double>(design.blocks);
}

}  // namespace millrace
