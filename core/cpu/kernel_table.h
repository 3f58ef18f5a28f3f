// Which algorithm a convolution uses, per pass, shape, micro-batch and instruction set: measured once, shipped, and
// never decided by a timing at run time, so that the same run gives the same bits everywhere.
//
//   KernelTable table = KernelTable::shipped();
//   table.merge(KernelTable::load("mine.csv"));                 // written by `millrace tune`
//   const ConvAlgorithm a = table.choice({conv, input, Phase::kForward, /*micro_batch=*/32, "avx512_core"});
//
// A micro-batch that was not measured takes the choice of the largest measured one below it. A shape that was not measured, as the part of
// a layer that a device has, takes those of the nearest one with the same kernel, at most a factor of eight away in channels and positions
// taken together; where none is as near it is computed directly. The digest names the decisions in use, for a run's fingerprint.
// The file is CSV with a header line, one line per key; load() fails with kMalformed naming file, line and value.
// Plain value, copied freely.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/cpu/nearest_shape.h"
#include "core/documents/model.h"
#include "core/documents/plan.h"

namespace millrace {

enum class ConvAlgorithm {
  kDirect,
  kWinograd,  // F(4x4, 3x3)
  kTaps,      // small maps: one matrix product per kernel tap, of up to four positions per tap and pair of them
};
std::string_view name_of(ConvAlgorithm algorithm);

// What a table tells apart.
inline constexpr std::array kConvAlgorithms{ConvAlgorithm::kDirect, ConvAlgorithm::kWinograd, ConvAlgorithm::kTaps};
inline constexpr std::array kConvPhases{Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient};

struct ConvKey {
  Conv2d conv;
  Shape input;
  Phase phase = Phase::kForward;
  int64_t micro_batch = 1;
  std::string isa;
};

class KernelTable {
 public:
  // What is compiled into this program.
  static const KernelTable& shipped();
  static KernelTable load(const std::filesystem::path& path);
  // `origin` names the text in messages.
  static KernelTable parse(std::string_view text, std::string_view origin);

  ConvAlgorithm choice(const ConvKey& key) const;
  void set(const ConvKey& key, ConvAlgorithm algorithm);
  // Entries of `other` win.
  void merge(const KernelTable& other);

  std::string text() const;
  void save(const std::filesystem::path& path) const;
  std::string digest() const;
  size_t size() const { return choices_.size(); }
  bool operator==(const KernelTable&) const = default;

 private:
  using Place = cpu::ShapePlace<std::string, 3>;  // channels in and out, positions
  struct Measured {
    Place place;
    std::map<int64_t, ConvAlgorithm> by_micro_batch;
    bool operator==(const Measured&) const = default;
  };
  // Everything of a key but the micro-batch, as it is written to the file.
  static std::string shape_text(const ConvKey& key);
  static Place place_of(const ConvKey& key);

  std::map<std::string, Measured> choices_;
};

}  // namespace millrace
