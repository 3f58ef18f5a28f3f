// Colours that stay apart: on light and on dark paper, in print, and for eyes that do not tell red from green.
//
//   const LayerColours colours({"conv1_1", "conv1_2", "conv2_1", ...});     // in chain order
//   colours.class_of(1);          // "l1": what a drawing writes as class
//   colours.style_sheet();        // what gives "l1" its fill, in both themes: once per page or file
//
// Eight hues, alternately dark and light, in an order in which neighbours differ for every kind of colour vision (a test
// measures it). The layers of a stage ("conv1", "layer3", "inception4a") share a hue and differ in lightness, so that 150
// layers still read as a few stages in order; stages eight apart share a hue. Nothing is told by colour alone: drawings
// carry tooltips, legends and tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum class Theme { kLight, kDark };

struct Colour {  // sRGB, 0 to 1
  double red = 0, green = 0, blue = 0;
};
std::string hexadecimal(const Colour& colour);  // "#4c5a01"
// OKLCH: perceived lightness 0 to 1, chroma, hue in degrees; chroma is lowered until the screen can show it.
Colour colour_from(double lightness, double chroma, double hue);
// WCAG's ratio, 1 to 21.
double contrast(const Colour& a, const Colour& b);

inline constexpr size_t kHues = 8;
// `shade` from 0 to 1 moves through the hue's range of lightness.
Colour hue_colour(size_t index, Theme theme, double shade = 0);
// Class of the index-th series of a chart, "s0" ... "s7", then again from the first.
std::string series_class(size_t index);

// The paper that drawings lie on.
Colour paper(Theme theme);

struct ColourStage {
  std::string name;
  size_t first = 0, last = 0;  // layers, both included
};
// Runs of layers whose names start alike up to the first '_', '.' or '/': "conv1_1", "conv1_2" -> "conv1". Where that
// tells too little, equal runs.
std::vector<ColourStage> stages_of(const std::vector<std::string>& layers);

class LayerColours {
 public:
  explicit LayerColours(std::vector<std::string> layers);

  size_t size() const { return layers_.size(); }
  const std::string& layer(size_t index) const { return layers_[index]; }
  const std::vector<ColourStage>& stages() const { return stages_; }
  std::string class_of(size_t index) const;
  Colour colour_of(size_t index, Theme theme) const;
  std::string style_sheet() const;

 private:
  std::vector<std::string> layers_;
  std::vector<ColourStage> stages_;
  std::vector<size_t> stage_of_;
};

// Fill and ink of the classes of series_class, in both themes.
std::string series_style_sheet();

}  // namespace millrace
