// Brings a picture to a network's size while it is decoded: bilinear, and when it shrinks every pixel counts (the triangle filter widens
// with the scale), as Pillow's resize does; the two agree within 2 of 255.
//
//   PictureResizer resizer;
//   resizer.begin(facts.shape, {3, 64, 64}, crop_of(facts.shape, {3, 64, 64}, {}));
//   decode_picture(bytes, "cat.jpg", facts, resizer);
//   resizer.finish(pixels);                               // [channel][row][column]
//
// One grey channel becomes three equal ones, colours become grey by their luma. Memory: a few rows of the picture, those that the output
// rows under way are made of. A resizer is used again for the next picture and keeps its buffers. Not thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/picture.h"

namespace millrace {

enum class PictureFit {
  kCrop,     // the picture's middle, as much as fills the shape
  kStretch,  // all of it, whatever becomes of its proportions
};

// A part of a picture, in pixels and parts of them.
struct PictureBox {
  double top = 0, left = 0, bottom = 0, right = 0;
};

// `shorter`: the picture is brought to so many pixels along its shorter side, then its middle is cut out; 0: to what just fills the shape.
PictureBox crop_of(const Shape& picture, const Shape& shape, PictureFit fit, int64_t shorter = 0);

// A part drawn by four random words: its area from `smallest` of the picture's to all of it, its proportions from 3:4 to 4:3 of the
// shape's, its place anywhere. An area that does not fit the picture in those proportions becomes the largest that does.
struct PictureDraw {
  double smallest = 1;
  std::array<uint32_t, 4> words = {};
};
PictureBox drawn_box(const Shape& picture, const Shape& shape, const PictureDraw& draw);

class PictureResizer final : public PictureRows {
 public:
  void begin(const Shape& picture, const Shape& output, const PictureBox& box);
  void row(int64_t index, std::span<const uint8_t> pixels) override;
  // Writes what came out: output.elements() bytes. All rows have been given.
  void finish(std::span<uint8_t> pixels) const;

 private:
  // Along one axis: output i is the sum of weights[first_weight + k] * input[first + k].
  struct Window {
    int64_t first = 0, count = 0, first_weight = 0;
  };
  struct Axis {
    std::vector<Window> windows;
    std::vector<float> weights;
    void lay(int64_t input, int64_t output, double begin, double end);
  };

  void add_pending();
  void emit(int64_t output_row, const std::vector<float>& sums);

  Shape picture_, output_;
  Axis rows_, columns_;
  int64_t first_column_ = 0, end_column_ = 0;  // what any output column needs
  int64_t next_ = 0;                           // the first output row that is not complete
  std::vector<std::vector<float>> sums_;       // of the output rows under way: row r lies at r modulo their number
  std::vector<uint8_t> lines_;                 // input rows that wait to be added together
  int64_t first_pending_ = 0, pending_ = 0;    // which, and how many
  std::vector<uint8_t> result_;                // [channel of the picture][row][column]
};

}  // namespace millrace
