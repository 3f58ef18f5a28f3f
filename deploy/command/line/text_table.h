// Tables for people: columns as wide as their widest cell, a line under the head.
//
//   TextTable table({"layer", "operation", "MACs"}, /*left=*/2);
//   table.add({"conv1", "conv2d", grouped(105415200)});
//   fmt::print("{}", table.text());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// A table of more rows than that shows its first and last ones.
inline constexpr size_t kMostTableRows = 48;
inline constexpr size_t kTableRowsAtEachEnd = 16;

class TextTable {
 public:
  // The first `left` columns are text and lean left, the others are numbers.
  TextTable(std::vector<std::string> head, size_t left) : left_(left) { rows_.push_back(std::move(head)); }

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // A line of dashes before the next row.
  void rule() { rules_.push_back(rows_.size()); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> rules_;
  size_t left_;
};

// 1076634144 -> "1,076,634,144"; "-" for 0, so that what costs stands out.
std::string grouped(int64_t number);

}  // namespace millrace
