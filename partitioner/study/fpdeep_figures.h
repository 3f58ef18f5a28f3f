// What FPDeep's text says about its own performance, figure by figure, and how near a model of it has to come.
//
//   for (const FpdeepFigure& figure : fpdeep_figures()) compare(figure, measured.at({figure.id, figure.network}));
//
// Data alone: Wang, Geng, Li, Jin, Herbordt, "FPDeep: Scalable Acceleration of CNN Training on Deeply-Pipelined FPGA
// Clusters", IEEE Transactions on Computers 69 (8), 2020. `paper` is what the text prints; `least` and `most` bound what a
// faithful model may give. Where the two disagree, the paper contradicts itself, and `contradiction` says how.
#pragma once

#include <span>
#include <string_view>

#include "core/documents/catalogue.h"

namespace millrace {

struct FpdeepFigure {
  std::string_view id;       // fpdeep_study.cpp measures under this name
  std::string_view network;  // of the zoo; "" where the figure is about all three
  std::string_view quantity;
  std::string_view unit;        // "yes/no": 1 is yes
  double paper = 0;             // NaN: the paper gives no number
  std::string_view paper_text;  // instead of a number, or what qualifies it: "under"
  std::string_view source;      // where in the paper
  double least = 0;
  double most = 0;
  std::string_view constants;           // names of what the figure rests on: the board's constants, and fpdeep_rules
  std::string_view contradiction = {};  // with what else in the paper; empty: none known
  std::string_view otherwise = {};      // why this model disagrees, where it is known to; empty: it has to agree
};

std::span<const FpdeepFigure> fpdeep_figures();

// What rows rest on beside the board's constants: where a ring stops being linear, and numbers that the paper does not give, or that
// explain it. Origins are those of a catalogue, and "chosen" of what this program decides.
std::span<const CatalogueValue> fpdeep_rules();

// How long activations are held in the rows about memory, and by `millrace plan`.
inline constexpr std::string_view kFpdeepMemoryModel =
    "activations are held as long as FPDeep's formulas say, in which errors pass strides, pooling and links in no time; millrace plan and "
    "study count the time that takes, unless --fpdeep-lifetimes is given";

}  // namespace millrace
