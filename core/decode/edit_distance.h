// How far two rows of labels are apart: the fewest insertions, deletions and replacements that lead from one to the other.
//
//   CharacterErrors errors;
//   errors.add(edit_distance(said, wanted), wanted.size());
//   errors.rate();                                  // the character error rate over all that was added
//
// Time is the product of the lengths, memory the shorter one.
#pragma once

#include <cstdint>
#include <span>

namespace millrace {

int64_t edit_distance(std::span<const int32_t> a, std::span<const int32_t> b);

struct CharacterErrors {
  int64_t edits = 0;
  int64_t labels = 0;

  void add(int64_t more_edits, size_t more_labels) {
    edits += more_edits;
    labels += static_cast<int64_t>(more_labels);
  }
  // Beyond 1 when more is said than there is; edits when there are no labels at all.
  double rate() const { return labels == 0 ? static_cast<double>(edits) : static_cast<double>(edits) / static_cast<double>(labels); }
};

}  // namespace millrace
