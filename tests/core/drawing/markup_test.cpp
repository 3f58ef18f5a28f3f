#include "core/drawing/markup.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/core/drawing/well_formed.h"

namespace millrace {
namespace {

using testing_support::well_formed;

TEST(Escaped, TurnsMarkupIntoText) {
  EXPECT_EQ(escaped("<b>\"a\" & 'b'</b>"), "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;");
  EXPECT_EQ(escaped("]]></style>"), "]]&gt;&lt;/style&gt;");
  EXPECT_EQ(escaped(""), "");
}

TEST(Escaped, KeepsTextOfEveryScript) {
  EXPECT_EQ(escaped("caf\xC3\xA9 \xE2\x86\x92 \xF0\x9F\x8C\x8A\n\t"), "caf\xC3\xA9 \xE2\x86\x92 \xF0\x9F\x8C\x8A\n\t");
}

TEST(Escaped, ReplacesWhatIsNoText) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a" + mark + "b");
  EXPECT_EQ(escaped("\x01\x1F\x7F"), mark + mark + mark);
  EXPECT_EQ(escaped("\xFF"), mark);
  EXPECT_EQ(escaped("\xC3"), mark) << "half a character";
  EXPECT_EQ(escaped("\xC0\xAF"), mark + mark) << "an overlong slash";
  EXPECT_EQ(escaped("\xED\xA0\x80"), mark + mark + mark) << "a surrogate";
  EXPECT_EQ(escaped("\xEF\xBF\xBF"), mark + mark + mark) << "U+FFFF, which XML forbids";
  EXPECT_EQ(escaped("\xC2\x85"), mark + mark) << "a control character of the second kind";
}

TEST(Escaped, MakesAnyBytesWellFormed) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += static_cast<char>(random() % 256);
    Markup out;
    out.leaf("p", {{"title", bytes}}, bytes);
    ASSERT_EQ(well_formed(out.str()), "") << round;
  }
}

TEST(Coordinate, IsShortAndNeverStrange) {
  EXPECT_EQ(coordinate(12.5), "12.5");
  EXPECT_EQ(coordinate(12), "12");
  EXPECT_EQ(coordinate(100), "100");
  EXPECT_EQ(coordinate(1.005e-9), "0");
  EXPECT_EQ(coordinate(-1e-9), "0");
  EXPECT_EQ(coordinate(-3.456), "-3.46");
  EXPECT_EQ(coordinate(std::nan("")), "0");
  EXPECT_EQ(coordinate(std::numeric_limits<double>::infinity()), "0");
  EXPECT_EQ(percent_of(1.0 / 3), "33.333%");
  EXPECT_EQ(percent_of(0), "0%");
}

TEST(Markup, NestsAndEscapes) {
  Markup out;
  out.open("g", {{"class", "a b"}, {"id", ""}, {"width", 3}, {"x", 0.25}});
  out.shape("rect", {{"x", 1}}).shape("rect", {}, "1 < 2").leaf("text", {}, "a&b").close();
  EXPECT_EQ(out.str(),
            "<g class=\"a b\" width=\"3\" x=\"0.25\"><rect x=\"1\"/><rect><title>1 &lt; 2</title></rect><text>a&amp;b</text></g>");
  EXPECT_EQ(well_formed(out.str()), "");
}

TEST(MarkupDeathTest, ClosesOnlyWhatIsOpen) {
  Markup out;
  EXPECT_DEATH(out.close(), "never opened");
}

TEST(WellFormedCheck, FindsWhatIsWrong) {
  for (const char* bad : {"<a>", "</a>", "<a><b></a></b>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>", "<a>&nbsp;</a>", "<a/><b/>",
                          "text", "", "<a x=\"<\"/>", "<a>\x01</a>", "<a", "< a/>"})
    EXPECT_NE(well_formed(bad), "") << bad;
}

}  // namespace
}  // namespace millrace
