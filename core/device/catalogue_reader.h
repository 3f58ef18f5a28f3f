// Reads what a cost model needs of a catalogue's device, checks it, and notes each value as a constant of the plan.
//
//   CatalogueReader read(device);
//   const double rate = read.positive("macs_per_second_fp32");
//   const double launch = read.positive_or("launch_seconds", 0);     // absent: 0
//   std::vector<Constant> constants = read.constants();
//
// Fails with kMalformed, naming device, value and range, on a value that is missing, not positive or absurd.
// Borrows the device: it must outlive the reader.
#pragma once

#include <string_view>
#include <vector>

#include "core/documents/catalogue.h"
#include "core/documents/plan.h"

namespace millrace {

class CatalogueReader {
 public:
  explicit CatalogueReader(const CatalogueDevice& device) : device_(device) {}

  double positive(std::string_view name);
  double positive_or(std::string_view name, double otherwise);
  // What was read so far, in order.
  const std::vector<Constant>& constants() const { return constants_; }

 private:
  const CatalogueDevice& device_;
  std::vector<Constant> constants_;
};

}  // namespace millrace
