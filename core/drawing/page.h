// A report: one HTML page with its style sheet inside, nothing else to load, no script.
//
//   Page page("vgg16 on vc709x15", "hybrid plan, 16-bit fixed point");
//   page.tiles({{.name = "Throughput", .value = "69.6", .unit = "images/s", .origin = "modelled"}});
//   page.section("Links", "What crosses each link in a second.");
//   page.figure({.title = "Load", .note = "modelled", .drawing = draw(chart)});
//   write_atomically("index.html", std::move(page).html(colours.style_sheet()));
//
// Reads well from 360 pixels to wide screens, in light and dark, printed, and by screen readers. Everything given as text
// is escaped. The page is well-formed XML too, which the tests use. Sections and grids close by themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/drawing/drawing.h"
#include "core/drawing/markup.h"

namespace millrace {

struct Tile {
  std::string name = {};
  std::string value = {};   // "69.6"
  std::string unit = {};    // in small print after the value
  std::string note = {};    // a line below
  std::string origin = {};  // "modelled", "measured", "paper", "fitted", "counted"
};

struct Figure {
  std::string title = {};
  std::string note = {};
  Drawing drawing = {};
};

struct Cell {
  std::string text = {};
  std::string chip = {};  // class of a small square before the text
  std::string tooltip = {};
  bool origin = false;  // framed, as an origin
  bool bad = false;     // in the accent's colour
};
struct TableColumn {
  std::string name = {};
  bool number = false;    // aligned right
  bool unbroken = false;  // its text stays on one line
};
struct Table {
  std::vector<TableColumn> columns = {};
  struct Row {
    std::vector<Cell> cells = {};
    bool starts = false;  // the first of several that belong together: only such rows have a line above, if there are any
  };
  std::vector<Row> rows = {};
  std::string label = {};  // what it holds, for screen readers
};

class Page {
 public:
  Page(std::string_view title, std::string_view subtitle);

  void tiles(const std::vector<Tile>& tiles);
  // A card with one thing to know and what follows from it.
  void verdict(std::string_view headline, const std::vector<std::string>& sentences);
  void section(std::string_view heading, std::string_view lead = {});
  void figure(const Figure& figure);
  // Figures side by side where there is room.
  void figures(const std::vector<Figure>& figures);
  // A figure around markup made elsewhere (ring.h), with its legend.
  void figure_of(std::string_view title, std::string_view note, std::string_view markup, const std::vector<LegendEntry>& legend);
  // Scrolls sideways within itself. With `folded` it opens on demand, under that text.
  void table(const Table& table, std::string_view folded = {});
  // Of what follows, where figures share one.
  void legend(const std::vector<LegendEntry>& legend);
  void preformatted(std::string_view text);
  // Names and values, one pair per row.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void paragraph(std::string_view text);
  void footer(std::string_view text);

  // The whole page, with further style sheets behind its own.
  std::string html(std::string_view style_sheets = {}) &&;

 private:
  void end_section();

  std::string title_;
  Markup body_;
  bool in_section_ = false;
};

std::string legend_markup(const std::vector<LegendEntry>& legend);

}  // namespace millrace
