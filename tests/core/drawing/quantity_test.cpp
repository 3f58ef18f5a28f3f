#include "core/drawing/quantity.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

TEST(Quantity, TakesThePrefixThatFits) {
  EXPECT_EQ(quantity(18.62e9, "b/s"), "18.6 Gb/s");
  EXPECT_EQ(quantity(205.52e6, "b"), "206 Mb");
  EXPECT_EQ(quantity(1000, "b"), "1.00 kb");
  EXPECT_EQ(quantity(999, "b"), "999 b");
  EXPECT_EQ(quantity(999.96, "b"), "1.00 kb") << "rounded first, then scaled";
  EXPECT_EQ(quantity(0.01436, "s"), "14.4 ms");
  EXPECT_EQ(quantity(4.5e-7, "s"), "450 ns");
  EXPECT_EQ(quantity(0.3, "b"), "0.300 b") << "no thousandths of a bit";
  EXPECT_EQ(quantity(0, "b/s"), "0 b/s");
  EXPECT_EQ(quantity(-2e6, "b"), "-2.00 Mb");
  EXPECT_EQ(quantity(3e21, "b"), "3,000 Eb");
}

TEST(Quantity, SaysWhenItDoesNotKnow) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), infinity, -infinity}) {
    EXPECT_EQ(quantity(value, "b"), "not known");
    EXPECT_EQ(plain(value, "GOPS"), "not known");
    EXPECT_EQ(percent(value), "not known");
    EXPECT_EQ(duration(value), "not known");
    EXPECT_EQ(significant(value), "not known");
    EXPECT_EQ(tick(value), "");
  }
}

TEST(Duration, ReadsAsPeopleSayIt) {
  EXPECT_EQ(duration(7884), "2.19 h");
  EXPECT_EQ(duration(612), "10.2 min");
  EXPECT_EQ(duration(90), "90.0 s");
  EXPECT_EQ(duration(0.0000042), "4.20 \xC2\xB5s");
  EXPECT_EQ(duration(0), "0 s");
}

TEST(Significant, KeepsWholeNumbersWhole) {
  EXPECT_EQ(significant(69.57), "69.6");
  EXPECT_EQ(significant(1212.4), "1,212");
  EXPECT_EQ(significant(1281167), "1,281,167");
  EXPECT_EQ(significant(0.0042), "0.00420");
  EXPECT_EQ(significant(1.2e-7), "1.20e-07");
  EXPECT_EQ(significant(9.999), "10.0");
  EXPECT_EQ(significant(-1234567), "-1,234,567");
  EXPECT_EQ(significant(1e300), "1.00e+300");
}

TEST(Separated, SeparatesThousands) {
  EXPECT_EQ(separated(0), "0");
  EXPECT_EQ(separated(999), "999");
  EXPECT_EQ(separated(-1000), "-1,000");
  EXPECT_EQ(separated(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Percent, ShowsThatSomethingIsThere) {
  EXPECT_EQ(percent(0.9814), "98.1%");
  EXPECT_EQ(percent(1), "100%");
  EXPECT_EQ(percent(2.5), "250%");
  EXPECT_EQ(percent(0), "0%");
  EXPECT_EQ(percent(1e-6), "<0.1%");
}

TEST(Tick, IsShort) {
  EXPECT_EQ(tick(0.5), "0.5");
  EXPECT_EQ(tick(20), "20");
  EXPECT_EQ(tick(1500), "1.5k");
  EXPECT_EQ(tick(2e6), "2M");
  EXPECT_EQ(tick(-20), "-20");
  EXPECT_EQ(tick(0.1 + 0.2), "0.3");
}

}  // namespace
}  // namespace millrace
