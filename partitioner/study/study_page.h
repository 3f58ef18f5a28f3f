// Studies as pages to read: core/drawing's charts around what run_study and fpdeep_rows found.
//
//   write_atomically(folder / "index.html", study_page(task, study, "millrace study --model vgg16 --device vc709"));
//   write_atomically(folder / "index.html", paper_page(rows, "millrace study --paper fpdeep"));
//
// The first shows what FPDeep's Figs 15 and 16 do: throughput with the roof that links put on it, idle stages, epochs per
// hour, link loads and memory by number of devices. Each page stands alone; everything on it is modelled unless it says
// "paper".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partitioner/study/fpdeep_study.h"
#include "partitioner/study/study.h"

namespace millrace {

// "75 Gb/s each way", "150 Gb/s both directions together"
std::string link_text(const LinkEntry& link);
std::string study_page(const StudyTask& task, const Study& study, std::string_view command);

// A number as its unit wants it: "yes", "62,378,344", "18.6"; "-" for what is not there.
std::string figure_text(double value, std::string_view unit);
std::string quantity_text(const FpdeepFigure& figure);  // with its unit, where that is not plain
// "55 to 70", "at most 80", "at least 150", "yes"; "-" where anything goes.
std::string accepted_text(const FpdeepFigure& figure);
std::string paper_text(const FpdeepFigure& figure);
std::string difference_text(const PaperRow& row);  // "+1.2%", "-"
std::string paper_page(const std::vector<PaperRow>& rows, std::string_view command);

}  // namespace millrace
