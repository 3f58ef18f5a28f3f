// Speech: sound files good and bad, what of them a network hears, what is spelled, and what is left out.
#include "core/data/speech.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "core/data/log_mel.h"
#include "core/data/wav.h"
#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void append(std::string& bytes, uint32_t value, int width) {
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}
struct WavParts {
  uint32_t format = 1, channels = 1, rate = 8000, depth = 16;
  std::string before_data = {};  // whole chunks
};
std::string wav_file(const std::vector<int16_t>& samples, const WavParts& parts = {}) {
  std::string body = "WAVEfmt ";
  append(body, 16, 4), append(body, parts.format, 2), append(body, parts.channels, 2), append(body, parts.rate, 4);
  append(body, parts.rate * 2, 4), append(body, 2, 2), append(body, parts.depth, 2);
  body += parts.before_data + "data";
  append(body, static_cast<uint32_t>(2 * samples.size()), 4);
  for (const int16_t sample : samples) append(body, static_cast<uint16_t>(sample), 2);
  std::string file = "RIFF";
  append(file, static_cast<uint32_t>(body.size()), 4);
  file += body;
  return file;
}
WavSound parsed_sound(std::string_view file) { return parse_wav(std::as_bytes(std::span(file.data(), file.size())), "hello.wav"); }
void refuse_sound(const std::string& file, const std::string& message) {
  expect_error(ErrorCode::kMalformed, message, [&] { parsed_sound(file); });
}

std::vector<int16_t> tone(double hertz, double seconds) {
  std::vector<int16_t> samples(static_cast<size_t>(8000 * seconds));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<int16_t>(8000 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / 8000));
  return samples;
}

TEST(Wav, ReadsSamplesAndPassesOverOtherChunks) {
  const WavSound sound = parsed_sound(wav_file({0, 1, -1, 32767, -32768}));
  EXPECT_EQ(sound.rate, 8000);
  EXPECT_THAT(sound.samples, ElementsAre(0, 1, -1, 32767, -32768));
  std::string odd = "LIST";
  append(odd, 3, 4);
  EXPECT_THAT(parsed_sound(wav_file({7}, {.before_data = odd + "abc" + std::string(1, '\0')})).samples, ElementsAre(7));
  EXPECT_TRUE(parsed_sound(wav_file({})).samples.empty());
}

TEST(Wav, NamesEveryTruncation) {
  const std::string whole = wav_file({1, 2, 3, 4});
  for (size_t size = 0; size < whole.size(); ++size) refuse_sound(whole.substr(0, size), "hello.wav");
  refuse_sound(whole.substr(0, whole.size() - 3), "49 bytes, but it says it has 52; the recording is truncated");
  std::string lying = whole;
  lying[40] = 100;
  refuse_sound(lying, "chunk \"data\" has 100 bytes, but the file ends after 8");
  refuse_sound("", "0 bytes, but at least 4 are needed");
}

TEST(Wav, NamesWhatItDoesNotRead) {
  refuse_sound(wav_file({1}, {.format = 6}), "format 6, 1 channel(s) of 16 bits at 8000 Hz; expected format 1");
  refuse_sound(wav_file({1}, {.channels = 2}), "2 channel(s)");
  refuse_sound(wav_file({1}, {.depth = 8}), "of 8 bits");
  refuse_sound(wav_file({1}, {.rate = 0}), "at 0 Hz");
  std::string other_order = wav_file({1});
  other_order[3] = 'X';
  refuse_sound(other_order, "\"RIFX\" at byte 0, expected \"RIFF\"; this is no WAV file");
  std::string silent = wav_file({1, 2});
  silent.replace(36, 4, "fact");
  refuse_sound(silent, "no sound in it");
  std::string unformatted = wav_file({1, 2});
  unformatted.replace(12, 4, "junk");
  refuse_sound(unformatted, "no format in front of the sound");
  std::string odd = wav_file({1, 2});
  odd[40] = 3;
  refuse_sound(odd, "3 bytes of sound, an odd number");
}

TEST(LogMel, ATonesBandIsTheLoudest) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  const LogMel front({});
  std::vector<int64_t> loudest;
  for (const double hertz : {200.0, 500.0, 1000.0, 2000.0, 3500.0}) {
    const std::vector<int16_t> sound = tone(hertz, 0.1);
    std::vector<float> frames(static_cast<size_t>(front.frames(sound.size()) * front.bands()));
    front.compute(sound, frames);
    const auto middle = frames.begin() + 3 * front.bands();
    loudest.push_back(std::max_element(middle, middle + front.bands()) - middle);
    EXPECT_TRUE(std::ranges::all_of(frames, [](float value) { return std::isfinite(value); }));
  }
  EXPECT_TRUE(std::ranges::is_sorted(loudest));
  EXPECT_EQ(std::set<int64_t>(loudest.begin(), loudest.end()).size(), 5U);
  // Half way between 60 Hz and 4 kHz on the mel scale lies 1,322 Hz, the corner of bands 19 and 20.
  std::vector<int16_t> sound = tone(1322, 0.1);
  std::vector<float> frames(static_cast<size_t>(front.frames(sound.size()) * front.bands()));
  front.compute(sound, frames);
  EXPECT_NEAR(static_cast<double>(std::max_element(frames.begin(), frames.begin() + 40) - frames.begin()), 19.5, 1.5);
}

// By the definition, without a library: the power spectrum as a sum over the window.
TEST(LogMel, AgreesWithTheSumThatDefinesIt) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  std::vector<int16_t> sound;
  for (int i = 0; i < 200; ++i) sound.push_back(static_cast<int16_t>(i * i * 37 % 20001 - 10000));
  const LogMel front({.bands = 1});
  std::vector<float> frame(1);
  front.compute(sound, frame);
  const double lowest = 2595 * std::log10(1 + 60.0 / 700), highest = 2595 * std::log10(1 + 4000.0 / 700);
  const double middle = 700 * (std::pow(10, (lowest + highest) / 2 / 2595) - 1);
  double power = 0;
  for (int line = 0; line <= 128; ++line) {
    const double hertz = line * 8000.0 / 256;
    const double weight = std::min((hertz - 60) / (middle - 60), (4000 - hertz) / (4000 - middle));
    if (weight <= 0) continue;
    double re = 0, im = 0;
    for (int i = 0; i < 200; ++i) {
      const double x = (sound[static_cast<size_t>(i)] - 0.97 * (i > 0 ? sound[static_cast<size_t>(i - 1)] : 0)) / 32768;
      const double shaped = x * (0.5 - 0.5 * std::cos(2 * std::numbers::pi * (i + 0.5) / 200));
      re += shaped * std::cos(2 * std::numbers::pi * line * i / 256), im -= shaped * std::sin(2 * std::numbers::pi * line * i / 256);
    }
    power += weight * (re * re + im * im);
  }
  EXPECT_NEAR(static_cast<double>(frame[0]), std::log(power), 1e-3);
}

TEST(LogMel, CountsFramesAndHearsShortAndSilentSounds) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  const LogMel front({});
  EXPECT_EQ(front.frames(0), 1);
  EXPECT_EQ(front.frames(199), 1);
  EXPECT_EQ(front.frames(279), 1);
  EXPECT_EQ(front.frames(280), 2);
  EXPECT_EQ(front.frames(8000), 98);
  std::vector<float> frame(40);
  front.compute({}, frame);
  EXPECT_TRUE(std::ranges::all_of(frame, [](float value) { return std::isfinite(value); }));
}

std::string spelled(std::string_view words) {
  const auto labels = spell(words);
  if (!labels) return "nothing";
  std::string text;
  for (const int32_t label : *labels) text += label == 28 ? ' ' : label == 27 ? '\'' : static_cast<char>('a' + label - 1);
  return text;
}

TEST(Spell, WritesWhatIsSaid) {
  EXPECT_EQ(spelled(" That agent is already logged on.  Please enter ..."), "that agent is already logged on please enter");
  EXPECT_EQ(spelled("o'clock"), "o'clock");
  EXPECT_EQ(spelled("Press 1, then 9!"), "press one then nine");
  EXPECT_EQ(spelled("3D audio"), "three d audio");
  EXPECT_EQ(spelled("P.M."), "p m");
  for (const char* unsayable : {"", "...", "[a beep]", "extension 42", "press #", "caf\xC3\xA9"})
    EXPECT_EQ(spelled(unsayable), "nothing") << unsayable;
}

TEST(Transcripts, AreNameAndWords) {
  const auto found = parse_transcripts("; comment\n\ndigits/1: one\r\nnote: it: is", "list");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "digits/1");
  EXPECT_EQ(found[0].words, " one");
  EXPECT_EQ(found[1].words, " it: is");
  for (const char* bad : {"a: b\nno colon", "a: b\n: words", "a: b\n../secret: words", "a: b\n/etc/passwd: words"})
    expect_error(ErrorCode::kMalformed, "list: line 2", [&] { parse_transcripts(bad, "list"); });
}

// A folder of prompts as the packages have it.
class SpeechFolder {
 public:
  SpeechFolder() {
    if (!has_speech_front_end()) return;
    for (int i = 0; i < 12; ++i) add(fmt::format("p{}", 10 + i), fmt::format("ab{}", static_cast<char>('a' + i)), 0.2 + 0.05 * i);
  }
  void add(const std::string& name, const std::string& words, double seconds) {
    list(fmt::format("{}: {}", name, words));
    folder_.write(fmt::format("{}.wav", name), wav_file(tone(400 + 10 * static_cast<double>(name.back()), seconds)));
  }
  void list(const std::string& line) {
    list_ += line;
    list_ += '\n';
  }
  void write(const std::string& name, const std::string& bytes) { folder_.write(name, std::string_view(bytes)); }
  SpeechOptions options() {
    folder_.write("list.txt", std::string_view(list_));
    return {.recordings = folder_.path(), .transcripts = folder_.path() / "list.txt"};
  }

 private:
  TemporaryFolder folder_;
  std::string list_;
};

TEST(Speech, BringsRowsOfLettersAndFramesOfUnequalLength) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  SpeechFolder folder;
  const DataSplit data = load_speech(folder.options());
  EXPECT_EQ(data.train.size(), 11);
  EXPECT_EQ(data.test.size(), 1);
  EXPECT_EQ(data.test.sequences->name_of(0), "p19");
  EXPECT_EQ(data.train.shape, (Shape{40, 1 + (6000 - 200) / 80, 1}));
  EXPECT_EQ(data.train.sequences->steps(0), 1 + (1600 - 200) / 80);
  std::vector<int32_t> row(3);
  data.test.sequences->read_labels(0, row);
  EXPECT_THAT(row, ElementsAre(1, 2, 10));
  // Each band of the training part has mean 0 and deviation 1.
  double sum = 0, squares = 0, frames = 0;
  for (int64_t sample = 0; sample < 11; ++sample) {
    std::vector<float> values(static_cast<size_t>(data.train.sequences->steps(sample) * 40));
    data.train.sequences->read(sample, values);
    for (size_t i = 7; i < values.size(); i += 40)
      sum += static_cast<double>(values[i]), squares += static_cast<double>(values[i] * values[i]), ++frames;
  }
  EXPECT_NEAR(sum / frames, 0, 1e-4);
  EXPECT_NEAR(squares / frames, 1, 1e-3);
}

TEST(Speech, LeavesOutWhatCannotBeLearntAndCountsIt) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  SpeechFolder folder;
  folder.add("beep", "[a beep]", 0.3);
  folder.add("long", "ab", 11);
  folder.add("hasty", "this is far too much", 0.3);
  folder.list("absent: hello");
  const DataSplit data = load_speech(folder.options());
  EXPECT_EQ(data.train.size() + data.test.size(), 12);
  EXPECT_THAT(
      data.train.notes[0],
      HasSubstr("12 of 16 prompts; left out: 1 without a recording, 1 without words that can be spelled, 1 longer than 10 s, 1 too fast"));
}

TEST(Speech, TakesSoManyAsAreAskedForEvenlyDrawn) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  SpeechFolder folder;
  SpeechOptions options = folder.options();
  options.prompts = 4;
  const DataSplit data = load_speech(options);
  EXPECT_EQ(data.train.size(), 3);
  EXPECT_EQ(data.train.sequences->name_of(1), "p13");
  EXPECT_EQ(data.test.sequences->name_of(0), "p19");
  options.prompts = 13;
  expect_error(ErrorCode::kUsage, "12 qualify", [&] { load_speech(options); });
}

TEST(Speech, NamesTheRecordingThatIsDamaged) {
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  SpeechFolder truncated;
  const std::string whole = wav_file(tone(440, 0.5));
  truncated.list("cut: hello");
  truncated.write("cut.wav", whole.substr(0, whole.size() / 2));
  expect_error(ErrorCode::kMalformed, "cut.wav: 4022 bytes, but it says it has 8044", [&] { load_speech(truncated.options()); });
  SpeechFolder empty;
  empty.list("mute: hello");
  empty.write("mute.wav", wav_file({}));
  expect_error(ErrorCode::kMalformed, "mute.wav: a recording of no samples", [&] { load_speech(empty.options()); });
  SpeechFolder fast;
  fast.list("cd: hello");
  fast.write("cd.wav", wav_file(tone(440, 0.5), {.rate = 44100}));
  expect_error(ErrorCode::kMalformed, "cd.wav: 44100 Hz, expected 8000", [&] { load_speech(fast.options()); });
}

TEST(Speech, NamesThePackagesWhenAbsent) {
  expect_error(ErrorCode::kNotFound, "apt-get install asterisk-core-sounds-en-wav asterisk-core-sounds-en",
               [] { load_speech({.recordings = "/nonexistent"}); });
  expect_error(ErrorCode::kUsage, "prompts is \"x\"", [] { load_data("speech:x"); });
  expect_error(ErrorCode::kUsage, "the form is speech", [] { load_data("speech:5:5:5"); });
}

TEST(Speech, LoadsWhenInstalled) {
  const SpeechOptions installed;
  if (!std::filesystem::exists(installed.recordings) || !std::filesystem::exists(installed.transcripts))
    GTEST_SKIP() << "asterisk-core-sounds-en-wav and asterisk-core-sounds-en are not installed";
  if (!has_speech_front_end()) GTEST_SKIP() << "libkissfft-dev was not found when this was configured";
  const DataSplit data = load_data("speech:40:3");
  EXPECT_EQ(data.train.size(), 36);
  EXPECT_EQ(data.test.size(), 4);
  EXPECT_LE(data.train.shape.height, 298);
  EXPECT_EQ(data.train.classes, 29);
  EXPECT_THAT(describe(data.train), HasSubstr("CC BY-SA"));
}

}  // namespace
}  // namespace millrace
