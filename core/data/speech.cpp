#include "core/data/speech.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/data/log_mel.h"
#include "core/data/wav.h"

namespace millrace {
namespace {

constexpr int64_t kRate = 8000;
constexpr int32_t kApostrophe = 27, kSpace = 28;
constexpr int64_t kTestEvery = 10;
// A network that halves the steps must still have one for each letter, with room for blanks.
constexpr int64_t kLeastFramesPerLetter = 3;

struct Prompt {
  std::string name;
  std::vector<int32_t> labels;
  std::vector<float> frames;  // [frame][band]
};

class Prompts : public Sequences {
 public:
  Prompts(std::vector<Prompt> prompts, int64_t bands) : prompts_(std::move(prompts)), bands_(bands) {}

  int64_t size() const override { return static_cast<int64_t>(prompts_.size()); }
  int64_t features() const override { return bands_; }
  int64_t steps(int64_t sample) const override { return static_cast<int64_t>(of(sample).frames.size()) / bands_; }
  void read(int64_t sample, std::span<float> values) const override { std::ranges::copy(of(sample).frames, values.begin()); }
  void read_labels(int64_t sample, std::span<int32_t> labels) const override {
    const std::vector<int32_t>& own = of(sample).labels;
    std::fill(std::ranges::copy(own, labels.begin()).out, labels.end(), kNoLabel);
  }
  std::string name_of(int64_t sample) const override { return of(sample).name; }

 private:
  const Prompt& of(int64_t sample) const { return item(prompts_, sample); }

  std::vector<Prompt> prompts_;
  int64_t bands_;
};

int64_t repeats(const std::vector<int32_t>& labels) {
  int64_t count = 0;
  for (size_t i = 1; i < labels.size(); ++i) count += labels[i] == labels[i - 1] ? 1 : 0;
  return count;
}

// Why prompts are left out, and how many.
struct LeftOut {
  int64_t unrecorded = 0, wordless = 0, long_ones = 0, hasty = 0;

  std::string text(size_t taken, size_t all, double seconds) const {
    return fmt::format(
        "speech: {} of {} prompts; left out: {} without a recording, {} without words that can be spelled, {} longer than {:g} s, {} too "
        "fast",
        taken, all, unrecorded, wordless, long_ones, seconds, hasty);
  }
};

void refuse_absence(const SpeechOptions& options) {
  for (const std::filesystem::path& place : {options.recordings, options.transcripts})
    if (!std::filesystem::exists(place))
      fail(ErrorCode::kNotFound,
           "the spoken prompts need {}, which is not there; install the Debian packages asterisk-core-sounds-en-wav and "
           "asterisk-core-sounds-en (apt-get install asterisk-core-sounds-en-wav asterisk-core-sounds-en)",
           place.string());
}

WavSound recording(const std::filesystem::path& path) {
  WavSound sound = parse_wav(read_bytes(path), path.string());
  if (sound.rate != kRate) fail(ErrorCode::kMalformed, "{}: {} Hz, expected {}", path.string(), sound.rate, kRate);
  if (sound.samples.empty()) fail(ErrorCode::kMalformed, "{}: a recording of no samples", path.string());
  return sound;
}

std::vector<Prompt> qualifying_prompts(const SpeechOptions& options, const LogMel& front, std::string& note) {
  const std::vector<std::byte> packed = read_bytes_unpacked(options.transcripts);
  std::vector<Transcript> transcripts =
      parse_transcripts({reinterpret_cast<const char*>(packed.data()), packed.size()}, options.transcripts.string());
  std::ranges::sort(transcripts, {}, &Transcript::name);
  LeftOut left_out;
  std::vector<Prompt> prompts;
  for (const Transcript& transcript : transcripts) {
    const std::filesystem::path path = options.recordings / (transcript.name + ".wav");
    if (!std::filesystem::exists(path)) {
      ++left_out.unrecorded;
      continue;
    }
    std::optional<std::vector<int32_t>> labels = spell(transcript.words);
    if (!labels) {
      ++left_out.wordless;
      continue;
    }
    const WavSound sound = recording(path);
    if (sound.seconds() > options.seconds) {
      ++left_out.long_ones;
      continue;
    }
    const int64_t frames = front.frames(sound.samples.size());
    const int64_t needed = static_cast<int64_t>(labels->size()) + repeats(*labels);
    if (needed * kLeastFramesPerLetter > frames) {
      ++left_out.hasty;
      continue;
    }
    Prompt prompt{transcript.name, std::move(*labels), std::vector<float>(to_size(frames * front.bands()))};
    front.compute(sound.samples, prompt.frames);
    prompts.push_back(std::move(prompt));
  }
  note = left_out.text(prompts.size(), transcripts.size(), options.seconds);
  return prompts;
}

// Every band to mean 0 and deviation 1 over the training part.
void normalise(std::vector<Prompt>& train, std::vector<Prompt>& test, int64_t bands) {
  const auto count = to_size(bands);
  std::vector<double> sum(count), squares(count);
  double frames = 0;
  for (const Prompt& prompt : train)
    for (size_t i = 0; i < prompt.frames.size(); ++i) {
      const auto value = static_cast<double>(prompt.frames[i]);
      sum[i % count] += value;
      squares[i % count] += value * value;
      frames += i % count == 0 ? 1 : 0;
    }
  for (std::vector<Prompt>* part : {&train, &test})
    for (Prompt& prompt : *part)
      for (size_t i = 0; i < prompt.frames.size(); ++i) {
        const double mean = sum[i % count] / frames;
        const double variance = std::max(squares[i % count] / frames - mean * mean, 1e-12);
        prompt.frames[i] = static_cast<float>((static_cast<double>(prompt.frames[i]) - mean) / std::sqrt(variance));
      }
}

std::vector<std::string> letters() {
  std::vector<std::string> names{"blank"};
  for (char letter = 'a'; letter <= 'z'; ++letter) names.emplace_back(1, letter);
  names.emplace_back("'");
  names.emplace_back("space");
  return names;
}

}  // namespace

std::vector<Transcript> parse_transcripts(std::string_view text, std::string_view origin) {
  std::vector<Transcript> transcripts;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with(';')) continue;
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, std::min(colon, line.size()));
    if (colon == std::string_view::npos || name.empty() || name.find("..") != std::string_view::npos || name.starts_with('/'))
      fail(ErrorCode::kMalformed, "{}: line {}: \"{}\" is not \"name: words\"", origin, number, line.substr(0, 60));
    transcripts.push_back({std::string(name), std::string(line.substr(colon + 1))});
  }
  return transcripts;
}

std::optional<std::vector<int32_t>> spell(std::string_view words) {
  constexpr std::array<std::string_view, 10> kDigits = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  constexpr std::string_view kPauses = " .,!?;:-\t\"";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<int32_t> labels;
  bool pause = false;
  const auto say = [&](int32_t label) {
    if (pause && !labels.empty()) labels.push_back(kSpace);
    pause = false;
    labels.push_back(label);
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const char c = words[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower >= 'a' && lower <= 'z') {
      say(lower - 'a' + 1);
    } else if (c == '\'') {
      say(kApostrophe);
    } else if (kPauses.find(c) != std::string_view::npos) {
      pause = true;
    } else if (is_digit(c) && !(i > 0 && is_digit(words[i - 1])) && !(i + 1 < words.size() && is_digit(words[i + 1]))) {
      pause = true;
      for (const char letter : item(kDigits, c - '0')) say(letter - 'a' + 1);
      pause = true;
    } else {
      return std::nullopt;  // how it is spoken is not written
    }
  }
  if (labels.empty()) return std::nullopt;
  return labels;
}

DataSplit load_speech(const SpeechOptions& options) {
  refuse_absence(options);
  const LogMel front({.rate = kRate});
  std::string note;
  std::vector<Prompt> prompts = qualifying_prompts(options, front, note);
  const auto found = static_cast<int64_t>(prompts.size());
  if (found < 2 || options.prompts > found)
    fail(ErrorCode::kUsage, "speech of {} prompts of at most {:g} s: {} qualify; ask for fewer, or longer ones ({})",
         std::max<int64_t>(options.prompts, 2), options.seconds, found, note);
  const int64_t wanted = options.prompts > 0 ? options.prompts : found;
  std::vector<Prompt> train, test;
  int64_t longest = 0, most_labels = 0;
  for (int64_t i = 0; i < wanted; ++i) {
    Prompt& prompt = item(prompts, i * found / wanted);
    longest = std::max(longest, static_cast<int64_t>(prompt.frames.size()) / front.bands());
    most_labels = std::max(most_labels, static_cast<int64_t>(prompt.labels.size()));
    const bool tests = i % kTestEvery == kTestEvery - 1 || (i == wanted - 1 && test.empty());
    (tests ? test : train).push_back(std::move(prompt));
  }
  normalise(train, test, front.bands());
  const auto part = [&](std::vector<Prompt> own) {
    Dataset data;
    data.kind = InputKind::kFeatures;
    data.shape = {front.bands(), longest, 1};
    data.classes = kSpeechClasses;
    data.class_names = letters();
    data.label_form = LabelForm::kRow;
    data.labels_each = most_labels;
    data.lengths_differ = true;
    data.sequences = std::make_shared<Prompts>(std::move(own), front.bands());
    data.source = "Asterisk Core Sounds, spoken by Allison Smith, as the Debian package asterisk-core-sounds-en-wav has them";
    data.licence = "CC BY-SA 3.0";
    data.notes = {note};
    return data;
  };
  return {part(std::move(train)), part(std::move(test))};
}

}  // namespace millrace
