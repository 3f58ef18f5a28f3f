#include "deploy/command/line/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/drawing/quantity.h"

namespace millrace {
namespace {

std::string ruler(const std::vector<size_t>& widths) {
  size_t length = 2 * (widths.size() - 1);
  for (const size_t width : widths) length += width;
  return std::string(length, '-') + "\n";
}

}  // namespace

std::string TextTable::text() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (size_t column = 0; column < row.size(); ++column) widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i == 1 || std::find(rules_.begin(), rules_.end(), i) != rules_.end()) text += ruler(widths);
    std::string line;
    for (size_t column = 0; column < rows_[i].size(); ++column)
      line += column < left_ ? fmt::format("{:<{}}  ", rows_[i][column], widths[column])
                             : fmt::format("{:>{}}  ", rows_[i][column], widths[column]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string grouped(int64_t number) { return number == 0 ? "-" : separated(number); }

}  // namespace millrace
