// Where the reference's recurrent layers keep what E and G need of each step: for the layer itself, and for devices that write their own
// numbers there.
//
//   const RecurrentRecord record(shape);
//   values[record.at(direction, sample, step) + record.h()] ...
//
// A record per direction, sample and step, one more before the first step and one behind the last: the gates as they came out
// (RecurrentShape's record), the errors of the same sums, h, c, what is projected, and the error of h behind the projection.
#pragma once

#include <cstdint>

#include "core/device/recurrent_shape.h"

namespace millrace::reference {

class RecurrentRecord {
 public:
  explicit RecurrentRecord(const RecurrentShape& shape)
      : samples_(shape.samples),
        places_(shape.steps + 2),
        gates_(shape.record * shape.hidden),
        features_(shape.features),
        hidden_(shape.hidden) {}

  int64_t places() const { return places_; }
  int64_t size() const { return projection_errors() + features_; }
  // The first value of a step's record; steps are -1 to `steps`.
  int64_t at(int64_t direction, int64_t sample, int64_t step) const {
    return ((direction * samples_ + sample) * places_ + step + 1) * size();
  }
  // Behind it.
  int64_t errors() const { return gates_; }
  int64_t h() const { return 2 * gates_; }
  int64_t c() const { return h() + features_; }
  int64_t projected() const { return c() + hidden_; }
  int64_t projection_errors() const { return c() + 2 * hidden_; }

 private:
  int64_t samples_, places_, gates_, features_, hidden_;
};

}  // namespace millrace::reference
