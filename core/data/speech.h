// Spoken prompts with what they say: the voice of Asterisk's answering machine, from Debian's packages. Internal to core/data.
//
//   DataSplit speech = load_speech();                                  // --data speech
//   DataSplit few = load_speech({.prompts = 50, .seconds = 3});        // --data speech:50:3
//
// About 25 minutes by one speaker, telephone quality: enough to show that a network learns to spell what it hears, not to
// compare error rates with anybody's. A sample is the prompt's log-mel frames (core/data/log_mel.h), each band normalised over the
// training part; its labels are the letters of its transcript: classes 0 blank, 1 to 26 a to z, 27 apostrophe, 28 space.
// Prompts are taken in order of their names; every tenth is for testing. Left out, and counted in Dataset::notes: prompts
// without a recording, without words (tones), with signs that nobody can spell, longer than asked for, and faster than letters
// can be told apart. Single digits are spelled ("1" as "one").
// A recording that is truncated or of another format is an error that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"

namespace millrace {

struct SpeechOptions {
  int64_t prompts = 0;  // so many, drawn evenly from all that qualify; 0: all of them
  double seconds = 10;  // longer ones are left out
  std::filesystem::path recordings = "/usr/share/asterisk/sounds/en_US_f_Allison";  // where Debian puts them
  std::filesystem::path transcripts = "/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz";
};

// Fails with kNotFound naming the packages when either place does not exist, kUsage when fewer prompts qualify than asked for.
DataSplit load_speech(const SpeechOptions& options = {});

struct Transcript {
  std::string name;  // of the recording, without .wav: "digits/1"
  std::string words;
};
// Lines "name: words"; ; starts a comment. Fails with kMalformed naming the line.
std::vector<Transcript> parse_transcripts(std::string_view text, std::string_view origin);

inline constexpr int64_t kSpeechClasses = 29;
// The labels that spell the words; nothing when there are none, or signs that nobody can spell.
std::optional<std::vector<int32_t>> spell(std::string_view words);

}  // namespace millrace
