// The lines and numbers of a profile's file, and the messages when they are wrong. Internal to partitioner/profile.
//
//   for (LineReader lines(text, "chain.csv"); lines.next();)
//     const double seconds = lines.number(field, "fwd_us", kMostNodeSeconds * 1e6) / 1e6;
//
// Borrows text and origin. Lines end in "\n" or "\r\n"; blank ones are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class LineReader {
 public:
  LineReader(std::string_view text, std::string_view origin);

  // False at the end.
  bool next();
  std::string_view line() const { return line_; }
  int64_t number_of_line() const { return number_; }
  // Whether the line at hand ends in a line break, as all but the last must.
  bool complete() const { return complete_; }

  // Of this line: at least 0, finite, at most `most`. Fails naming line, field and value.
  double number(std::string_view text, std::string_view field, double most) const;
  // The same, and without a fraction.
  double whole_number(std::string_view text, std::string_view field, double most) const;
  // A name without blanks around it; fails when it is empty or no terminal should be sent it.
  std::string_view name(std::string_view text) const;
  // "chain.csv:12"
  std::string where() const;
  std::string where(int64_t line) const;

 private:
  std::string_view rest_;
  std::string_view origin_;
  std::string_view line_;
  int64_t number_ = 0;
  bool complete_ = true;
};

// `"1e400"`, cut to a readable length, with what no terminal should be sent replaced.
std::string in_quotes(std::string_view text);
std::string_view trimmed(std::string_view text);

// node2 before node10: runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace millrace
