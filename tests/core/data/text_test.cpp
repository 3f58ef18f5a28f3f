// Text: what its characters become, what is refused and where, and how samples flow on.
#include "core/data/text.h"

#include <algorithm>

#include "core/data/loader.h"
#include "core/data/sample_source.h"
#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::u32string parsed_text(std::string_view text) { return parse_text(std::as_bytes(std::span(text.data(), text.size())), "book"); }
void refuse_text(std::string_view text, const std::string& message) {
  expect_error(ErrorCode::kMalformed, message, [&] { parsed_text(text); });
}

TEST(Text, ReadsUtf8) {
  EXPECT_EQ(parsed_text("Größe \xE2\x82\xAC \xF0\x9F\x98\x80\n"), U"Größe € 😀\n");
  EXPECT_EQ(parsed_text("\xEF\xBB\xBF"
                        "a\r\nb"),
            U"a\nb");
  EXPECT_EQ(parsed_text(""), U"");
}

TEST(Text, NamesWhatCannotBeReadAndWhere) {
  refuse_text("ab\ncd\xFF", "book: line 2, column 3: byte 0xff is not UTF-8");
  refuse_text("\xC3", "line 1, column 1: byte 0xc3");           // cut
  refuse_text("x\xC0\xAF", "line 1, column 2: byte 0xc0");      // overlong
  refuse_text("\xED\xA0\x80", "byte 0xed");                     // a surrogate
  refuse_text("\xF4\x90\x80\x80", "byte 0xf4");                 // beyond U+10FFFF
  refuse_text("a\xE2\x28\xA1", "line 1, column 2: byte 0xe2");  // no continuation
  refuse_text(std::string_view("a\0b", 3), "line 1, column 2: U+0000 cannot be read");
  refuse_text("a\rb", "U+000D cannot be read");
  refuse_text("one\n\x1B[0m", "line 2, column 1: U+001B");
}

TEST(Text, EveryVocabularyBeginsAlike) {
  const std::u32string plain = vocabulary_of(U"abc"), german = vocabulary_of(U"größer und ß");
  EXPECT_EQ(plain.size(), 97U);
  EXPECT_EQ(plain, vocabulary_of(U""));
  EXPECT_EQ(german, plain + U"ßö");
  EXPECT_EQ(encode(U"\n ~", german, "book"), (std::vector<uint16_t>{1, 2, 96}));
  EXPECT_EQ(encode(U"ö", german, "book"), (std::vector<uint16_t>{98}));
}

TEST(Text, NamesTheUnknownCharacterAndWhereItStands) {
  expect_error(ErrorCode::kMismatch, "book: line 2, column 3: character ö is not among the 97",
               [] { encode(U"ab\ncdö", vocabulary_of(U""), "book"); });
}

TEST(Text, ASampleIsLabelledWithTheCharactersBehindItsOwn) {
  std::u32string text;
  for (int i = 0; i < 100; ++i) text.push_back(U'a' + static_cast<char32_t>(i % 26));
  const DataSplit data = split_text(text, "book", 4);
  EXPECT_EQ(data.train.size(), 22);  // 90 characters
  EXPECT_EQ(data.test.size(), 2);
  EXPECT_EQ(data.train.classes, 97);
  EXPECT_TRUE(data.train.flows);
  std::vector<float> values(4);
  std::vector<int32_t> labels(4);
  const Sequences& samples = *data.train.sequences;
  samples.read(1, values);
  samples.read_labels(1, labels);
  const auto id = [](char c) { return static_cast<int32_t>(c - ' ') + 2; };
  EXPECT_THAT(values, ElementsAre(id('e'), id('f'), id('g'), id('h')));
  EXPECT_THAT(labels, ElementsAre(id('f'), id('g'), id('h'), id('i')));
  EXPECT_EQ(data.train.class_names[static_cast<size_t>(id('e'))], "e");
  EXPECT_EQ(data.train.class_names[2], "space");
  data.test.sequences->read(0, values);
  EXPECT_EQ(values[0], static_cast<float>(id(static_cast<char>('a' + 90 % 26))));
}

TEST(Text, CutsAnewForTheStepsOfAModel) {
  DataSplit data = split_text(std::u32string(1000, U'x'), "book", 10);
  Model model;
  model.input_kind = InputKind::kTokens;
  model.input = {1, 25, 1};
  cut_to(data, model);
  EXPECT_EQ(data.train.shape, (Shape{1, 25, 1}));
  EXPECT_EQ(data.train.labels_each, 25);
  EXPECT_EQ(data.train.size(), 899 / 25);
  EXPECT_EQ(form_of(data.train).labels, LabelForm::kPerStep);
  model.input.height = 100;
  expect_error(ErrorCode::kMalformed, "100 characters do not make one sample of 100 steps", [&] { cut_to(data, model); });
}

// What streams and the text make together: place i of update u goes on where place i of update u-1 ended.
TEST(Text, FlowsOnFromMiniBatchToMiniBatch) {
  std::u32string text;
  for (int i = 0; i < 2000; ++i) text.push_back(U' ' + static_cast<char32_t>(i * i % 95));
  const DataSplit data = split_text(text, "book", 7);
  Loader loader(sample_source(data.train, {.output = {1, 7, 1}}), training_order(data.train, 3, {.mini_batch = 6, .micro_batch = 3}));
  std::vector<std::vector<float>> tokens;
  std::vector<std::vector<int32_t>> labels;
  for (int64_t s = 0; s < 12; ++s) {
    const Batch& batch = loader.load(s);
    tokens.emplace_back(batch.pixels.begin(), batch.pixels.end());
    labels.emplace_back(batch.labels.begin(), batch.labels.end());
    EXPECT_EQ(batch.fresh[0], s < 2);
    if (s < 2) continue;
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(tokens.back()[7 * i], static_cast<float>(labels[static_cast<size_t>(s) - 2][7 * i + 6]));
  }
}

TEST(Text, TooShortOnesAreRefused) {
  expect_error(ErrorCode::kMalformed, "book, the first nine tenths, for training: 0 characters do not make",
               [] { split_text(U"", "book"); });
  expect_error(ErrorCode::kMalformed, "the last tenth, for testing: 20 characters", [] { split_text(std::u32string(200, U'x'), "book"); });
}

TEST(LimitVocabulary, NamesTheCharacterTheNetworkDoesNotKnow) {
  std::u32string text(300, U'a');
  text[120] = U'\n';
  text[125] = U'é';
  DataSplit data = split_text(text, "book", 5);
  EXPECT_EQ(data.train.classes, 98);
  expect_error(ErrorCode::kMismatch, "line 2, column 5: character é is not among the 97 that the network knows",
               [&] { limit_vocabulary(data, 97); });
  limit_vocabulary(data, 98);
  EXPECT_EQ(data.train.classes, 98);
  DataSplit plain = split_text(std::u32string(300, U'a'), "book", 5);
  limit_vocabulary(plain, 101);
  EXPECT_EQ(plain.test.vocabulary, 101);
  EXPECT_EQ(plain.test.class_names.size(), 101U);
}

TEST(LoadText, TheShippedTextIsKingJames) {
  const DataSplit data = load_data("text");
  EXPECT_EQ(data.train.name, "text/train");
  EXPECT_EQ(data.train.classes, 97);
  EXPECT_EQ(data.train.size() + data.test.size(), 2481 + 275);
  std::vector<float> values(100);
  data.train.sequences->read(0, values);
  std::string beginning;
  for (int i = 0; i < 16; ++i) beginning += static_cast<char>(' ' + static_cast<int>(values[static_cast<size_t>(i)]) - 2);
  EXPECT_EQ(beginning, "In the beginning");
  EXPECT_THAT(describe(data.test), HasSubstr("public domain"));
}

TEST(LoadText, ReadsAFileOfOnesOwn) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "größer ";
  folder.write("book.txt", text);
  const DataSplit data = load_data("text:" + folder.text() + "/book.txt");
  EXPECT_EQ(data.train.classes, 99);
  EXPECT_EQ(data.train.size(), (2520 - 1) / 100);
  folder.write("brief.txt", std::string_view(text).substr(0, 243));  // 189 characters: a model of few steps can have it
  DataSplit brief = load_data("text:" + folder.text() + "/brief.txt");
  EXPECT_EQ(brief.train.shape.height, 17);
  Model model;
  model.input_kind = InputKind::kTokens;
  model.input = {1, 6, 1};
  cut_to(brief, model);
  EXPECT_EQ(brief.test.size(), 2);
  expect_error(ErrorCode::kNotFound, "nowhere.txt", [] { load_data("text:nowhere.txt"); });
}

TEST(LoadText, TheWholeBibleIsThereWhereItsPackagesAre) {
  expect_error(ErrorCode::kNotFound, "apt-get install bible-kjv bible-kjv-text", [] { load_kjv("/nonexistent/bible"); });
  expect_error(ErrorCode::kNotFound, "/bin/true lists 0 characters", [] { load_kjv("/bin/true"); });
  if (!std::filesystem::exists(kBibleProgram)) GTEST_SKIP() << "bible-kjv is not installed";
  const DataSplit whole = load_data("text:kjv"), shipped = load_data("text");
  EXPECT_GT(whole.train.size(), 30000);
  std::vector<float> a(100), b(100);
  for (const int64_t sample : {int64_t{0}, int64_t{1000}, int64_t{2480}}) {
    whole.train.sequences->read(sample, a);
    shipped.train.sequences->read(sample, b);
    EXPECT_EQ(a, b) << "the same arrangement";
  }
}

}  // namespace
}  // namespace millrace
