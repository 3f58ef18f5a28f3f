// Text as a sequence of characters, each to be told from those before it.
//
//   DataSplit text = load_text("/books/faust.txt");          // --data text:/books/faust.txt
//   DataSplit kjv = load_kjv();                              // --data text:kjv, from Debian's package
//   cut_to(text, model);                                     // samples of as many steps as the model takes
//
// A file is UTF-8. A character's id is its place in the vocabulary, which begins with the same 97 for every text: tab, line
// break, and what ASCII prints; what else the text has follows in the order of its code points. So a network that was trained on
// one English text can be asked about another.
// The first nine tenths are for training, the last tenth is for testing. Sample i is the characters i * T to i * T + T - 1, its
// labels are the ones behind each of them; nothing is shuffled, because the text flows on (BatchSampler::streams).
// Strict: bytes that are no UTF-8 and characters that nobody can see are named with line and column. A carriage return before a
// line break and a byte order mark at the beginning are left out.
// Limits: 2^30 characters, 65,536 different ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"

namespace millrace {

inline constexpr int64_t kTextSteps = 100;  // of a sample, until it is cut for a model; fewer where a text is short

// `origin` names the bytes in messages. Fails with kMalformed.
std::u32string parse_text(std::span<const std::byte> bytes, std::string_view origin);

// The common 97 characters, then the text's others.
std::u32string vocabulary_of(std::u32string_view text);
// Ids of all characters; fails with kMismatch naming the first one that is not in the vocabulary, and where it stands.
std::vector<uint16_t> encode(std::u32string_view text, std::u32string_view vocabulary, std::string_view origin);
// A class name as people read it: "a", "space", "line break".
std::string name_of_character(char32_t character);

// Both parts of a text. Fails with kMalformed when one of them is too short for a sample.
DataSplit split_text(std::u32string_view text, std::string_view origin, int64_t steps = kTextSteps);

DataSplit load_text(const std::filesystem::path& path);
// Genesis and Exodus 1 to 20, which come with Millrace.
DataSplit load_shipped_text();

inline constexpr const char* kBibleProgram = "/usr/bin/bible";  // where Debian puts it
// The whole King James Bible, one verse a line. Fails with kNotFound naming the packages when `program` does not exist.
DataSplit load_kjv(const std::string& program = kBibleProgram);

// Makes text data what a network of so many tokens can be asked about: the vocabulary becomes the network's. Fails with
// kMismatch naming the first character that the network does not know, and where it stands. Leaves other data alone.
void limit_vocabulary(DataSplit& data, int64_t tokens);

}  // namespace millrace
