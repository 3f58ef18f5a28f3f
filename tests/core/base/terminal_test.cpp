#include "core/base/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/progress.h"

namespace millrace {
namespace {

TEST(Terminal, CutsTextToColumns) {
  const bool utf8 = terminal_abilities().utf8;
  EXPECT_EQ(fit_columns("training", 8), "training");
  EXPECT_EQ(fit_columns("training", 7), utf8 ? "traini…" : "trai...");
  EXPECT_EQ(fit_columns("training", 1), "t");
  EXPECT_EQ(fit_columns("training", 0), "");
  EXPECT_EQ(columns_of("training"), 8);
}

TEST(Terminal, NeverLetsATextMoveTheCursor) {
  EXPECT_EQ(fit_columns("a\nb\x1b[2Jc\x7f", 80), "a?b?[2Jc?");
  EXPECT_EQ(fit_columns("\xff", 80), "?");
}

TEST(Terminal, ShowsOtherLettersWhereTheLocaleHasThem) {
  if (!terminal_abilities().utf8) {
    EXPECT_EQ(fit_columns("n\xc3\xa4", 80), "n??");
    return;
  }
  EXPECT_EQ(columns_of("n\xc3\xa4"), 2);
  EXPECT_EQ(fit_columns("n\xc3\xa4", 2), "n\xc3\xa4");
  EXPECT_EQ(columns_of("\xe7\xbd\x91"), 2);  // one wide character
  EXPECT_EQ(fit_columns("\xe7\xbd\x91\xe7\xbd\x91", 3), "\xe7\xbd\x91…");
}

TEST(Progress, IsNeverWiderThanTheTerminal) {
  for (int64_t columns = 1; columns <= 200; ++columns)
    for (const char* note : {"", "epoch 12.3, test accuracy 97.20%"}) {
      const std::string line = progress_line("alexnet on 15 devices", 0.52, "3h02m left", note, columns);
      EXPECT_LE(columns_of(line), columns) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
}

TEST(Progress, GivesUpTheNoteBeforeTheBarAndTheBarBeforeTheTime) {
  const bool utf8 = terminal_abilities().utf8;
  const auto bar = [utf8](int full, int rest) {
    std::string text;
    for (int i = 0; i < full; ++i) text += utf8 ? "━" : "#";
    for (int i = 0; i < rest; ++i) text += utf8 ? "╌" : "-";
    return text;
  };
  EXPECT_EQ(progress_line("training", 0.5, "3s left", "epoch 1.1", 200), "training " + bar(14, 14) + "  50% 3s left epoch 1.1");
  EXPECT_EQ(progress_line("training", 0.5, "3s left", "epoch 1.1", 42), "training " + bar(5, 5) + "  50% 3s left epoch 1.1");
  EXPECT_EQ(progress_line("training", 0.5, "3s left", "epoch 1.1", 39), "training " + bar(8, 9) + "  50% 3s left");
  EXPECT_EQ(progress_line("training", 0.5, "3s left", "epoch 1.1", 30), "training  50% 3s left");
  EXPECT_EQ(progress_line("training", 0.5, "3s left", "epoch 1.1", 19), utf8 ? "train…  50% 3s left" : "tra...  50% 3s left");
}

}  // namespace
}  // namespace millrace
