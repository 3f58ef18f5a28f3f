// A paper's figures beside this program's, as a page to read, and each figure as words.
//
//   write_atomically(folder / "index.html", paper_page(report, "millrace study --paper fpdeep"));
//
// The page stands alone; everything on it is modelled unless it says "paper" or "simulated".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partitioner/study/fpdeep_study.h"

namespace millrace {

// A number as its unit wants it: "yes", "62,378,344", "18.6"; "-" for what is not there.
std::string figure_text(double value, std::string_view unit);
std::string quantity_text(const FpdeepFigure& figure);  // with its unit, where that is not plain
// "55 to 70", "at most 80", "at least 150", "yes"; "-" where anything goes.
std::string accepted_text(const FpdeepFigure& figure);
std::string paper_text(const FpdeepFigure& figure);
std::string difference_text(const PaperRow& row);  // "+1.2%", "-"
std::string simulated_text(const PaperRow& row);   // "-" where it was not
std::string paper_page(const FpdeepReport& report, std::string_view command);

}  // namespace millrace
