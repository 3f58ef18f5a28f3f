#include "core/data/transform.h"

#include <numeric>
#include <set>

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

// One image whose byte at (channel, row, column) is its index plus one, shown as byte / 255.
Dataset one_image(const Shape& shape) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements()));
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  Dataset data;
  data.name = "one";
  data.shape = shape;
  data.classes = 1;
  data.images = std::move(bytes);
  data.labels = {0};
  data.normalisation.mean.assign(static_cast<size_t>(shape.channels), 0.0);
  data.normalisation.stddev.assign(static_cast<size_t>(shape.channels), 1.0);
  return data;
}

// What the transform makes of the image, as bytes again.
std::vector<int> shown(const Dataset& data, const ImageTransform& transform, int64_t epoch = 0, int64_t sample = 0) {
  std::vector<float> pixels(static_cast<size_t>(transform.output().elements()));
  transform.apply(image_of(data, 0, {}), epoch, sample, pixels);
  std::vector<int> bytes;
  for (const float pixel : pixels) bytes.push_back(static_cast<int>(pixel * 255 + 0.5F));
  return bytes;
}

TEST(ImageTransform, LeavesAnImageThatFits) {
  const Dataset data = one_image({2, 2, 2});
  EXPECT_THAT(shown(data, ImageTransform(data, {.output = data.shape})), testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ImageTransform, RepeatsEnlargesAndPads) {
  const Dataset data = one_image({1, 1, 2});
  const ImageTransform transform(
      data, {.pad_top = 1, .pad_left = 0, .pad_bottom = 0, .pad_right = 1, .scale = 2, .repeat_channels = true, .output = {3, 3, 5}});
  const std::vector<int> plane = {0, 0, 0, 0, 0,  //
                                  1, 1, 2, 2, 0,  //
                                  1, 1, 2, 2, 0};
  std::vector<int> expected;
  for (int channel = 0; channel < 3; ++channel) expected.insert(expected.end(), plane.begin(), plane.end());
  EXPECT_EQ(shown(data, transform), expected);
}

TEST(ImageTransform, NormalisesPerChannelPaddingToo) {
  Dataset data = one_image({2, 1, 1});
  data.normalisation = {{0.25, 0.5}, {0.5, 2.0}};
  const ImageTransform transform(data, {.pad_right = 1, .output = {2, 1, 2}});
  std::vector<float> pixels(4);
  transform.apply(image_of(data, 0, {}), 0, 0, pixels);
  EXPECT_FLOAT_EQ(pixels[0], (1.0F / 255 - 0.25F) / 0.5F);
  EXPECT_FLOAT_EQ(pixels[1], -0.5F);
  EXPECT_FLOAT_EQ(pixels[2], (2.0F / 255 - 0.5F) / 2.0F);
  EXPECT_FLOAT_EQ(pixels[3], -0.25F);
}

// The straightforward way: pad, cut out, mirror.
std::vector<int> expected_view(const Dataset& data, int64_t padding, const ImageTransform::View& view) {
  const Shape& shape = data.shape;
  std::vector<int> bytes;
  for (int64_t channel = 0; channel < shape.channels; ++channel)
    for (int64_t row = 0; row < shape.height; ++row)
      for (int64_t column = 0; column < shape.width; ++column) {
        const int64_t y = row + view.top - padding;
        const int64_t x = (view.flipped ? shape.width - 1 - column : column) + view.left - padding;
        const bool inside = 0 <= y && y < shape.height && 0 <= x && x < shape.width;
        bytes.push_back(inside ? static_cast<int>((channel * shape.height + y) * shape.width + x + 1) : 0);
      }
  return bytes;
}

TEST(Augmentation, ShowsTheViewItSays) {
  const Dataset data = one_image({2, 5, 7});
  const ImageTransform transform(data, {.output = data.shape}, {.crop_padding = 3, .flip = true}, 11);
  for (int64_t sample = 0; sample < 200; ++sample)
    ASSERT_EQ(shown(data, transform, 4, sample), expected_view(data, 3, transform.view_of(4, sample))) << sample;
}

TEST(Augmentation, StaysInBoundsAndReachesThem) {
  const Dataset data = one_image({1, 8, 8});
  const ImageTransform transform(data, {.output = data.shape}, {.crop_padding = 2, .flip = true}, 3);
  std::set<int64_t> tops, lefts;
  int flipped = 0;
  constexpr int kSamples = 4000;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const ImageTransform::View view = transform.view_of(0, sample);
    tops.insert(view.top);
    lefts.insert(view.left);
    flipped += view.flipped ? 1 : 0;
  }
  EXPECT_THAT(tops, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(lefts, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(flipped, kSamples / 2, 130);  // four standard deviations
}

TEST(Augmentation, IsAPureFunctionOfSeedEpochAndSample) {
  const Dataset data = one_image({1, 9, 9});
  const auto views = [&](uint64_t seed, int64_t epoch) {
    const ImageTransform transform(data, {.output = data.shape}, {.crop_padding = 4, .flip = true}, seed);
    std::vector<ImageTransform::View> result;
    for (int64_t sample = 0; sample < 20; ++sample) result.push_back(transform.view_of(epoch, sample));
    return result;
  };
  EXPECT_EQ(views(1, 0), views(1, 0));
  EXPECT_NE(views(1, 0), views(1, 1));
  EXPECT_NE(views(1, 0), views(2, 0));
}

TEST(Augmentation, OffMeansTheImageItself) {
  const Dataset data = one_image({1, 4, 4});
  const ImageTransform transform(data, {.output = data.shape}, {}, 3);
  for (int64_t sample = 0; sample < 50; ++sample) EXPECT_EQ(transform.view_of(2, sample), ImageTransform::View{});
  const ImageTransform cropping(data, {.output = data.shape}, {.crop_padding = 1, .flip = false}, 3);
  for (int64_t sample = 0; sample < 50; ++sample) EXPECT_FALSE(cropping.view_of(2, sample).flipped);
}

TEST(Augmentation, RefusesPaddingThatMakesNoSense) {
  const Dataset data = one_image({1, 4, 6});
  for (const int64_t padding : {-1, 4, 1000})
    expect_error(ErrorCode::kUsage, "crop padding " + std::to_string(padding) + " for images of 1x4x6, expected 0 to 3",
                 [&] { ImageTransform(data, {.output = data.shape}, {.crop_padding = padding}, 1); });
}

}  // namespace
}  // namespace millrace
