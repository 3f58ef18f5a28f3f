// Formats written and read again; what cannot be is refused by line.
#include "fpga/conv_ce/arithmetic/formats_file.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/core/documents/expect_error.h"

namespace millrace {

TEST(FormatsFile, ReadsBackWhatItWrites) {
  std::mt19937_64 random(9);
  const auto drawn = [&random](int most) { return static_cast<int>(random() % static_cast<uint64_t>(most + 1)); };
  for (int round = 0; round < 200; ++round) {
    LayerFormats formats;
    for (int layer = 0; layer < 5; ++layer) {
      EngineFormats one{.activation = {drawn(15)}, .weight = {drawn(15)}, .sum = {0}, .error = {drawn(15)}, .input_error = {0}};
      one.sum.fraction_bits = drawn(one.activation.fraction_bits + one.weight.fraction_bits);
      one.input_error.fraction_bits = drawn(one.error.fraction_bits + one.weight.fraction_bits);
      formats["stage" + std::to_string(layer) + "/conv-1.a"] = one;
    }
    EXPECT_EQ(parse_formats(text_of(formats), "formats.txt"), formats);
  }
}

// Whatever a file holds: formats that the engine can do, or an error that says where.
TEST(FormatsFile, BitsOfAFileChangedAtRandomNeverCrash) {
  std::mt19937_64 random(10);
  const std::string good = text_of(LayerFormats{{"conv1", {}}, {"fc", {}}});
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = static_cast<char>(random() % 128);
      if (text.empty()) break;
    }
    try {
      for (const auto& [layer, one] : parse_formats(text, "formats.txt"))
        ASSERT_TRUE(one.sum_shift() >= 0 && one.sum_shift() <= 31 && one.error_shift() >= 0 && one.error_shift() <= 31) << text;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kMalformed);
      ASSERT_EQ(std::string(error.what()).rfind("formats.txt:", 0), 0U) << error.what();
    }
  }
}

TEST(FormatsFile, RefusesWhatTheEngineCannotDo) {
  const auto parse = [](const std::string& line) { return [line] { parse_formats("# comment\n" + line, "f.txt"); }; };
  expect_error(ErrorCode::kMalformed, "f.txt:2: weight \"31\" must be a number from 0 to 30",
               parse("a activation 11 weight 31 sum 11 error 12 input_error 12"));
  expect_error(ErrorCode::kMalformed, "f.txt:2: sum must be at most activation + weight",
               parse("a activation 1 weight 2 sum 11 error 12 input_error 12"));
  expect_error(ErrorCode::kMalformed, "f.txt:2: input_error must be at most error + weight",
               parse("a activation 11 weight 2 sum 11 error 1 input_error 12"));
  expect_error(ErrorCode::kMalformed, "f.txt:2: \"wait\" where \"weight N\" must stand", parse("a activation 11 wait 2"));
  expect_error(ErrorCode::kMalformed, "f.txt:2: nothing may follow input_error",
               parse("a activation 11 weight 13 sum 11 error 12 input_error 12 more"));
  const std::string line = "a activation 11 weight 13 sum 11 error 12 input_error 12\n";
  expect_error(ErrorCode::kMalformed, "f.txt:3: layer \"a\" is given twice", parse(line + line));
}

}  // namespace millrace
