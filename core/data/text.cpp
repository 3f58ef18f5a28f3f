#include "core/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/data/builtin.h"
#include "core/data/running_text.h"
#include "core/data/utf8.h"

namespace millrace {
namespace {

constexpr char32_t kFirstVisible = U' ', kLastAscii = U'~';
constexpr size_t kMostCharacters = size_t{1} << 30;
constexpr size_t kMostDifferent = size_t{1} << 16;

bool is_common(char32_t c) { return c == U'\t' || c == U'\n' || (c >= kFirstVisible && c <= kLastAscii); }
// Nothing to see: control characters beyond tab and line break, and what Unicode reserves.
bool is_unseen(char32_t c) { return (c < kFirstVisible && c != U'\t' && c != U'\n') || (c >= 0x7F && c < 0xA0) || c == 0xFEFF; }

}  // namespace

std::u32string parse_text(std::span<const std::byte> bytes, std::string_view origin) {
  Utf8Reader reader(bytes);
  std::u32string text;
  TextPlace place;
  while (!reader.done()) {
    const std::optional<char32_t> next = reader.take();
    if (!next)
      fail(ErrorCode::kMalformed, "{}: {}: byte 0x{:02x} is not UTF-8; convert the file, for example with iconv -t UTF-8", origin,
           words_for(place), reader.offending());
    const char32_t c = *next;
    if (c == U'\r' && reader.next_is('\n')) continue;
    if (c == 0xFEFF && text.empty()) continue;
    if (is_unseen(c))
      fail(ErrorCode::kMalformed, "{}: {}: {} cannot be read; is this a text?", origin, words_for(place), name_of_character(c));
    if (text.size() == kMostCharacters)
      fail(ErrorCode::kMalformed, "{}: more than {} characters; give a part of it", origin, kMostCharacters);
    text.push_back(c);
    place.pass(c);
  }
  return text;
}

std::u32string vocabulary_of(std::u32string_view text) {
  std::u32string vocabulary = U"\t\n";
  for (char32_t c = kFirstVisible; c <= kLastAscii; ++c) vocabulary.push_back(c);
  std::set<char32_t> others;
  for (const char32_t c : text)
    if (!is_common(c)) others.insert(c);
  vocabulary.append(others.begin(), others.end());
  return vocabulary;
}

std::vector<uint16_t> encode(std::u32string_view text, std::u32string_view vocabulary, std::string_view origin) {
  if (vocabulary.size() > kMostDifferent)
    fail(ErrorCode::kMalformed, "{}: {} different characters, at most {}", origin, vocabulary.size(), kMostDifferent);
  std::vector<std::pair<char32_t, uint16_t>> ids;
  for (size_t i = 0; i < vocabulary.size(); ++i) ids.emplace_back(vocabulary[i], static_cast<uint16_t>(i));
  std::ranges::sort(ids);
  std::vector<uint16_t> encoded;
  encoded.reserve(text.size());
  TextPlace place;
  for (const char32_t c : text) {
    const auto found = std::ranges::lower_bound(ids, c, {}, &std::pair<char32_t, uint16_t>::first);
    if (found == ids.end() || found->first != c)
      fail(ErrorCode::kMismatch, "{}: {}: character {} is not among the {} of the vocabulary", origin, words_for(place),
           name_of_character(c), vocabulary.size());
    encoded.push_back(found->second);
    place.pass(c);
  }
  return encoded;
}

std::string name_of_character(char32_t character) {
  switch (character) {
    case U'\t': return "tab";
    case U'\n': return "line break";
    case U' ': return "space";
    default: break;
  }
  if (is_unseen(character)) return fmt::format("U+{:04X}", static_cast<uint32_t>(character));
  return utf8_of(character);
}

DataSplit split_text(std::u32string_view text, std::string_view origin, int64_t steps) {
  const std::u32string vocabulary = vocabulary_of(text);
  const auto ids = std::make_shared<const std::vector<uint16_t>>(encode(text, vocabulary, origin));
  const size_t boundary = ids->size() - ids->size() / 10;
  const auto part = [&](size_t begin, size_t end, std::string_view name) {
    Dataset data;
    data.kind = InputKind::kTokens;
    data.shape = {1, steps, 1};
    data.classes = data.vocabulary = static_cast<int64_t>(vocabulary.size());
    for (const char32_t c : vocabulary) data.class_names.push_back(name_of_character(c));
    data.label_form = LabelForm::kPerStep;
    data.labels_each = steps;
    data.flows = true;
    data.sequences = std::make_shared<RunningText>(ids, begin, end, fmt::format("{}, {}", origin, name), steps);
    return data;
  };
  return {part(0, boundary, "the first nine tenths, for training"), part(boundary, ids->size(), "the last tenth, for testing")};
}

namespace {

// Until a model says otherwise; fewer where the text is short, so that a model of fewer steps can still have it.
int64_t first_steps(std::u32string_view text) { return std::clamp<int64_t>(static_cast<int64_t>(text.size() / 10) - 1, 1, kTextSteps); }

DataSplit loaded(std::u32string_view text, std::string_view origin) { return split_text(text, origin, first_steps(text)); }

DataSplit told_apart(DataSplit data, const std::string& source, const std::string& licence) {
  data.train.source = data.test.source = source;
  data.train.licence = data.test.licence = licence;
  return data;
}

constexpr const char* kKjvSource = "the King James Bible of 1611, as the Debian package bible-kjv-text has it";
constexpr const char* kKjvLicence = "public domain";

// "Ge1:1 In the beginning ..." -> "In the beginning ...", line by line.
std::string without_references(const std::string& listed) {
  std::string text;
  for (size_t begin = 0; begin < listed.size();) {
    const size_t end = std::min(listed.find('\n', begin), listed.size());
    const size_t space = listed.find(' ', begin);
    if (space < end) text.append(listed, space + 1, end - space - 1).push_back('\n');
    begin = end + 1;
  }
  return text;
}

std::string output_of(const std::string& program, const std::string& arguments) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      ::popen(fmt::format("'{}' {} </dev/null 2>/dev/null", program, arguments).c_str(), "r"), ::pclose);
  if (pipe == nullptr) fail(ErrorCode::kIo, "cannot start {}", program);
  std::string output;
  std::vector<char> block(size_t{1} << 16);
  while (const size_t read = std::fread(block.data(), 1, block.size(), pipe.get())) output.append(block.data(), read);
  return output;
}

std::u32string parsed(std::string_view text, std::string_view origin) {
  return parse_text(std::as_bytes(std::span(text.data(), text.size())), origin);
}

}  // namespace

DataSplit load_text(const std::filesystem::path& path) {
  return told_apart(loaded(parse_text(read_bytes_unpacked(path), path.string()), path.string()), path.string(), "the file's own");
}

DataSplit load_shipped_text() {
  const std::filesystem::path path = shipped_data("kjv") / "kjv.txt.gz";
  return told_apart(loaded(parse_text(read_bytes_unpacked(path), path.string()), path.string()),
                    fmt::format("Genesis and Exodus 1 to 20 of {}", kKjvSource), kKjvLicence);
}

DataSplit load_kjv(const std::string& program) {
  constexpr size_t kAtLeast = 4'000'000;
  constexpr const char* kAdvice = "install the Debian packages bible-kjv and bible-kjv-text (apt-get install bible-kjv bible-kjv-text)";
  if (!std::filesystem::exists(program))
    fail(ErrorCode::kNotFound, "the King James Bible is read through {}, which is not there; {}, or give a text of your own as text:FILE",
         program, kAdvice);
  const std::string text = without_references(output_of(program, "-f gen1:1-rev22:21"));
  if (text.size() < kAtLeast)
    fail(ErrorCode::kNotFound, "{} lists {} characters of the King James Bible; {}", program, text.size(), kAdvice);
  return told_apart(loaded(parsed(text, "text:kjv"), "text:kjv"), kKjvSource, kKjvLicence);
}

void limit_vocabulary(DataSplit& data, int64_t tokens) {
  for (Dataset* part : {&data.train, &data.test}) {
    const auto* const text = dynamic_cast<const RunningText*>(part->sequences.get());
    if (text == nullptr || part->vocabulary == tokens) continue;
    if (const std::optional<RunningText::Place> unknown = text->first_beyond(tokens))
      fail(ErrorCode::kMismatch, "{}: {}: character {} is not among the {} that the network knows", text->origin(),
           words_for(unknown->place), item(part->class_names, unknown->id), tokens);
    for (int64_t id = part->vocabulary; id < tokens; ++id) part->class_names.push_back(fmt::format("character {}", id));
    part->class_names.resize(to_size(tokens));
    part->vocabulary = part->classes = tokens;
  }
}

}  // namespace millrace
