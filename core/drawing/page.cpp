#include "core/drawing/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/drawing/theme.h"

namespace millrace {
namespace {

constexpr size_t kFewColumns = 3;

void figure_head(Markup& out, std::string_view title, std::string_view note) {
  if (!title.empty()) out.open("figcaption").leaf("h3", {}, title).close();
  if (!note.empty()) out.leaf("p", {{"class", "note"}}, note);
}

std::string swatch(const LegendEntry& entry) {
  Markup out;
  if (!entry.mark.empty()) {
    out.open("svg", {{"class", entry.classes.empty() ? "" : entry.classes.front()},
                     {"width", 16},
                     {"height", 12},
                     {"viewBox", "-8 -6 16 12"},
                     {"aria-hidden", "true"}});
    out.raw(entry.mark).close();
    return std::move(out).str();
  }
  constexpr double kSide = 11;
  const double width = entry.classes.size() > 1 ? 22 : kSide;
  out.open("svg", {{"width", width}, {"height", kSide}, {"aria-hidden", "true"}});
  const double part = width / static_cast<double>(std::max<size_t>(1, entry.classes.size()));
  for (size_t i = 0; i < entry.classes.size(); ++i)
    out.shape("rect", {{"class", entry.classes[i]}, {"x", part * static_cast<double>(i)}, {"width", part}, {"height", kSide}});
  out.close();
  return std::move(out).str();
}

std::string figure_markup(const Figure& figure) {
  Markup out;
  out.open("figure");
  figure_head(out, figure.title, figure.note);
  out.open("div", {{"class", "plot"}}).raw(inline_svg(figure.drawing)).close();
  out.raw(legend_markup(figure.drawing.legend)).close();
  return std::move(out).str();
}

}  // namespace

std::string legend_markup(const std::vector<LegendEntry>& legend) {
  if (legend.empty()) return "";
  Markup out;
  out.open("ul", {{"class", "legend"}});
  for (const LegendEntry& entry : legend) out.open("li").raw(swatch(entry)).leaf("span", {}, entry.name).close();
  out.close();
  return std::move(out).str();
}

Page::Page(std::string_view title, std::string_view subtitle) : title_(title) {
  body_.leaf("h1", {}, title);
  body_.leaf("p", {{"class", "subtitle"}}, subtitle);
}

void Page::tiles(const std::vector<Tile>& tiles) {
  body_.open("div", {{"class", "tiles"}});
  for (const Tile& tile : tiles) {
    body_.open("div", {{"class", "tile"}});
    body_.leaf("span", {{"class", "name"}}, tile.name);
    body_.open("span", {{"class", "value"}}).text(tile.value);
    if (!tile.unit.empty()) body_.text(" ").leaf("small", {}, tile.unit);
    body_.close();
    body_.leaf("span", {{"class", "note"}}, tile.note);
    if (!tile.origin.empty()) body_.leaf("span", {{"class", "origin"}}, tile.origin);
    body_.close();
  }
  body_.close();
}

void Page::verdict(std::string_view headline, const std::vector<std::string>& sentences) {
  body_.open("div", {{"class", "card verdict"}});
  body_.leaf("p", {{"class", "headline"}}, headline);
  if (!sentences.empty()) {
    body_.open("ul");
    for (const std::string& sentence : sentences) body_.leaf("li", {}, sentence);
    body_.close();
  }
  body_.close();
}

void Page::end_section() {
  if (in_section_) body_.close();
  in_section_ = false;
}

void Page::section(std::string_view heading, std::string_view lead) {
  end_section();
  body_.open("section").leaf("h2", {}, heading);
  in_section_ = true;
  if (!lead.empty()) body_.leaf("p", {{"class", "lead"}}, lead);
}

void Page::figure(const Figure& figure) { body_.raw(figure_markup(figure)); }

void Page::figures(const std::vector<Figure>& figures) {
  body_.open("div", {{"class", "figures"}});
  for (const Figure& figure : figures) body_.raw(figure_markup(figure));
  body_.close();
}

void Page::figure_of(std::string_view title, std::string_view note, std::string_view markup, const std::vector<LegendEntry>& legend) {
  body_.open("figure");
  figure_head(body_, title, note);
  body_.raw(markup).raw(legend_markup(legend)).close();
}

void Page::table(const Table& table, std::string_view folded) {
  const bool grouped = std::any_of(table.rows.begin(), table.rows.end(), [](const Table::Row& row) { return row.starts; });
  if (!folded.empty()) body_.open("details").leaf("summary", {}, folded);
  body_
      .open("div", {{"class", table.columns.size() <= kFewColumns ? "card scroll few" : "card scroll"},
                    {"tabindex", 0},
                    {"role", "region"},
                    {"aria-label", table.label}})
      .open("table", {{"class", grouped ? "" : "rows"}})
      .open("thead")
      .open("tr");
  for (const TableColumn& column : table.columns)
    body_.leaf("th", {{"scope", "col"}, {"class", column.number ? "number" : ""}}, column.name);
  body_.close().close().open("tbody");
  for (const Table::Row& row : table.rows) {
    body_.open("tr", {{"class", row.starts ? "start" : ""}});
    for (size_t i = 0; i < row.cells.size() && i < table.columns.size(); ++i) {
      const Cell& cell = row.cells[i];
      const TableColumn& column = table.columns[i];
      body_.open("td", {{"class", fmt::format("{}{}",
                                              column.number     ? "number"
                                              : column.unbroken ? "plain"
                                                                : "",
                                              cell.bad ? " bad" : "")},
                        {"title", cell.tooltip}});
      if (!cell.chip.empty()) body_.leaf("span", {{"class", fmt::format("chip {}", cell.chip)}}, "");
      if (cell.origin) {
        body_.leaf("span", {{"class", "origin"}}, cell.text);
      } else {
        body_.text(cell.text);
      }
      body_.close();
    }
    body_.close();
  }
  body_.close().close().close();
  if (!folded.empty()) body_.close();
}

void Page::legend(const std::vector<LegendEntry>& legend) {
  if (!legend.empty()) body_.open("div", {{"class", "key"}}).raw(legend_markup(legend)).close();
}

void Page::preformatted(std::string_view text) { body_.leaf("pre", {}, text); }

void Page::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_.open("div", {{"class", "card"}}).open("dl");
  for (const auto& [name, value] : facts) body_.leaf("dt", {}, name).leaf("dd", {}, value);
  body_.close().close();
}

void Page::paragraph(std::string_view text) { body_.leaf("p", {}, text); }

void Page::footer(std::string_view text) {
  end_section();
  body_.leaf("footer", {}, text);
}

std::string Page::html(std::string_view style_sheets) && {
  end_section();
  Markup out;
  out.raw("<!DOCTYPE html>\n");
  out.open("html", {{"lang", "en"}}).open("head");
  out.shape("meta", {{"charset", "utf-8"}});
  out.shape("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  out.shape("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  out.leaf("title", {}, title_);
  out.raw("\n<style>").raw(page_style_sheet()).raw(drawing_style_sheet()).raw(style_sheets).raw("</style>\n");
  out.close().open("body").open("main").raw(body_.str()).close().close().close();
  return std::move(out).str() + "\n";
}

}  // namespace millrace
