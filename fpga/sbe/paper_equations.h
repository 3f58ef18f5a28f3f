// What BB-LSTM prints about its own engine: Que et al., "Mapping Large LSTMs to FPGAs with Weight Reuse", JSPS 92 (2020), equations 1
// to 7. batch_timing() and sbe_use() are what they are held against. Internal to fpga/sbe.
//
//   const PaperDesign design{.shape = {1792, 256, 4}, .multipliers = 1024, .words_per_cycle = 16, .blocks = 16, .batch = 64};
//   paper_products_per_cycle(design) / 1024;      // 0.889
//
// Without stalls, and without x and h on the bus. Equation 4 is printed for batches at the balance point alone; below it, it is scaled
// as equation 3 is.
#pragma once

#include <cstdint>

#include "fpga/recurrence/gate_matrix.h"

namespace millrace {

struct PaperDesign {
  GateMatrix shape;
  double multipliers = 0;      // Npe
  double words_per_cycle = 0;  // Nt
  int64_t blocks = 1;          // Nb
  double batch = 1;            // B, steps of one sequence
};

int64_t paper_case(const PaperDesign& design);               // 1, 2, 3
double paper_products_per_cycle(const PaperDesign& design);  // P, equations 2 to 6
double paper_buffer_bits(const PaperDesign& design);         // equation 7 without its second term, which lies in LUTRAM

}  // namespace millrace
