#include "core/drawing/drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/index.h"
#include "core/drawing/theme.h"

namespace millrace {
namespace {

constexpr double kLegendFont = 11;
constexpr double kLegendRow = 18;

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

double relative_width(char byte) {
  if (!starts_character(byte)) return 0;
  constexpr std::string_view kNarrowLetters = "iIljtfr.,:;'|()[]-! /";
  constexpr std::string_view kBroad = "mwMW%@";
  if (kNarrowLetters.find(byte) != std::string_view::npos) return .42;
  if (kBroad.find(byte) != std::string_view::npos) return .98;
  if (byte >= 'A' && byte <= 'Z') return .74;
  return .645;
}

std::string swatches(const LegendEntry& entry, double x, double y) {
  Markup out;
  if (!entry.mark.empty()) {
    out.open("g", {{"class", entry.classes.empty() ? "" : entry.classes.front()},
                   {"transform", fmt::format("translate({} {})", coordinate(x + 7), coordinate(y))}});
    out.raw(entry.mark).close();
    return std::move(out).str();
  }
  const double width = 12.0 / static_cast<double>(std::max<size_t>(1, entry.classes.size()));
  for (size_t i = 0; i < entry.classes.size(); ++i)
    out.shape("rect",
              {{"class", entry.classes[i]}, {"x", x + 1 + width * static_cast<double>(i)}, {"y", y - 5}, {"width", width}, {"height", 10}});
  return std::move(out).str();
}

}  // namespace

size_t characters_in(std::string_view text) { return to_size(std::count_if(text.begin(), text.end(), starts_character)); }

double text_width(std::string_view text, double font_pixels) {
  double width = 0;
  for (const char byte : text) width += relative_width(byte);
  return width * font_pixels;
}

std::string shortened(std::string_view text, double width, double font_pixels) {
  if (text_width(text, font_pixels) <= width) return std::string(text);
  size_t end = text.size();
  while (end > 0 &&
         (!starts_character(end < text.size() ? text[end] : 'x') || text_width(text.substr(0, end), font_pixels) + font_pixels > width))
    --end;
  return std::string(text.substr(0, end)) + "\xE2\x80\xA6";
}

std::string open_stretched(double height, bool clipped) {
  return fmt::format(
      "<svg x=\"0\" y=\"0\" width=\"100%\" height=\"{0}\" viewBox=\"0 0 1000 {0}\" preserveAspectRatio=\"none\" overflow=\"{1}\">",
      coordinate(height), clipped ? "hidden" : "visible");
}
std::string close_stretched() { return "</svg>"; }

std::string inline_svg(const Drawing& drawing) {
  const Margins& m = drawing.margins;
  Markup out;
  out.open("svg", {{"role", "img"},
                   {"aria-label", drawing.label},
                   {"height", drawing.height},
                   {"style", fmt::format("margin:{}px {}px {}px {}px;width:calc(100% - {}px)", coordinate(m.top), coordinate(m.right),
                                         coordinate(m.bottom), coordinate(m.left), coordinate(m.left + m.right))}});
  out.raw(drawing.body).close();
  return std::move(out).str();
}

namespace {

// Lines of whole words that fit; a word that does not has a line of its own.
std::vector<std::string> wrapped(std::string_view text, double width, double font_pixels) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word(text.substr(begin, end - begin));
    if (lines.empty() || text_width(lines.back() + " " + word, font_pixels) > width)
      lines.push_back(word);
    else
      lines.back() += " " + word;
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::string standalone_svg(const Drawing& drawing, const Standalone& options) {
  const Margins& m = drawing.margins;
  constexpr double kEdge = 12, kTitleFont = 14, kTitleRow = 18;
  const std::vector<std::string> title = wrapped(options.title, options.width - 2 * kEdge, kTitleFont);
  const double title_height = title.empty() ? kEdge : 34 + kTitleRow * static_cast<double>(title.size() - 1);
  const double plot_width = options.width - m.left - m.right - 2 * kEdge;

  Markup legend;
  double x = kEdge, y = title_height + m.top + drawing.height + m.bottom + 12;
  if (drawing.legend.empty()) y -= 12;
  for (const LegendEntry& entry : drawing.legend) {
    const double width = 19 + text_width(entry.name, kLegendFont) + 14;
    if (x > kEdge && x + width > options.width - kEdge) {
      x = kEdge;
      y += kLegendRow;
    }
    legend.raw(swatches(entry, x, y)).leaf("text", {{"x", x + 19}, {"y", y + 4}}, entry.name);
    x += width;
  }
  if (!drawing.legend.empty()) y += kLegendRow;
  for (const std::string& line : wrapped(options.note, options.width - 2 * kEdge, kLegendFont)) {
    legend.leaf("text", {{"x", kEdge}, {"y", y + 4}}, line);
    y += kLegendRow;
  }
  const double height = y + 2;

  Markup out;
  out.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  out.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"width", options.width},
                   {"height", height},
                   {"viewBox", fmt::format("0 0 {} {}", coordinate(options.width), coordinate(height))},
                   {"role", "img"},
                   {"aria-label", drawing.label}});
  out.raw("<style>").raw(drawing_style_sheet()).raw(options.style_sheet).raw(plot_width < 460 ? ".wide{display:none}" : "").raw("</style>");
  out.shape("rect", {{"class", "paper"}, {"width", options.width}, {"height", height}, {"rx", 8}});
  for (size_t i = 0; i < title.size(); ++i)
    out.leaf("text", {{"class", "title"}, {"x", kEdge}, {"y", 22 + kTitleRow * static_cast<double>(i)}}, title[i]);
  out.open(
      "svg",
      {{"x", kEdge + m.left}, {"y", title_height + m.top}, {"width", plot_width}, {"height", drawing.height}, {"overflow", "visible"}});
  out.raw(drawing.body).close();
  out.raw(legend.str()).close();
  return std::move(out).str() + "\n";
}

}  // namespace millrace
