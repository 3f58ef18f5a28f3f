// Numbers for people: units with prefixes, three digits, never "nan".
//
//   quantity(18.62e9, "b/s")        "18.6 Gb/s"
//   quantity(0.01436, "s")          "14.4 ms"
//   duration(7884)                  "2.19 h"
//   plain(1212.4, "GOPS")           "1,212 GOPS"
//   percent(0.9814)                 "98.1%"
//   separated(1281167)              "1,281,167"
//   counted(3077.6)                 "3,078"
//
// What is not finite reads "not known". Prefixes are decimal; those below one are for seconds, watts and joules alone
// (a third of a bit is no millibit). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

inline constexpr std::string_view kNotKnown = "not known";

std::string separated(int64_t value);
// To the nearest whole number; past 1e15 as significant().
std::string counted(double value);
// So many digits: "69.6", "1,212", "0.00420"; very small and very large ones as "1.20e-07".
std::string significant(double value, int digits = 3);
std::string quantity(double value, std::string_view unit, int digits = 3);
std::string plain(double value, std::string_view unit, int digits = 3);
// Seconds as ns, us, ms, s, min or h.
std::string duration(double seconds, int digits = 3);
// One decimal below 99.95%, "<0.1%" for what is positive and rounds to nothing.
std::string percent(double share);
// As short as an axis wants it: "0", "0.5", "20", "1.5k", "2M".
std::string tick(double value);

}  // namespace millrace
