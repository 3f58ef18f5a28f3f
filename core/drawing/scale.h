// An axis's arithmetic: which range it shows, where a value lies on it, where its ticks are. Internal to core/drawing.
//
//   const Scale scale(axis, 0, 18.6);
//   scale.position(9.3);          // 0.465 when it ends at 20
//   for (const Tick& tick : scale.ticks()) ...
//
// Never empty and always finite, whatever the data: without any, 0 to 1.
#pragma once

#include <string>
#include <vector>

#include "core/drawing/chart.h"

namespace millrace {

struct Tick {
  double value = 0;
  std::string text;
  bool minor = false;  // may go where room is short
};

class Scale {
 public:
  // From the least to the most of the data; the axis's own limits win.
  Scale(const Axis& axis, double least, double most);
  // Of the data as they come; for a logarithmic axis, of the positive ones.
  static Scale of(const Axis& axis, const std::vector<double>& values);

  double position(double value) const;  // 0 to 1 within the range; what cannot be drawn is below 0
  bool shows(double value) const;
  double least() const { return least_; }
  double most() const { return most_; }
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void linear_ticks(const Axis& axis);
  void logarithmic_ticks(const Axis& axis);

  bool logarithmic_;
  double least_, most_;
  std::vector<Tick> ticks_;
};

// 1, 2 or 5 times a power of ten: the smallest that is at least `value`.
double round_step(double value);

}  // namespace millrace
