#include <fmt/format.h>

#include <set>

#include "core/base/files.h"
#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "core/data/npy.h"
#include "core/data/picture.h"
#include "core/data/picture_files.h"
#include "core/data/sample_source.h"
#include "tests/core/data/data_files.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

const fs::path kPictures = fs::path(MILLRACE_SOURCE_DIR) / "tests/core/data/pictures";

// A picture of one pixel is enough to ask.
bool reads(const std::string& name) {
  try {
    std::vector<uint8_t> pixels(3);
    read_picture(kPictures / name, {.shape = {3, 1, 1}}, pixels);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) return false;
    throw;
  }
}

#define SKIP_WITHOUT_READERS()                      \
  if (!reads("colour.jpg") || !reads("colour.png")) \
  GTEST_SKIP() << "libjpeg62-turbo-dev or libpng-dev was not found when this was configured"

TEST(Pictures, AreWhatPillowMakesOfThem) {
  SKIP_WITHOUT_READERS();
  const std::vector<std::byte> bytes = read_bytes(kPictures / "expected.npz");
  const NpzFile expected = parse_npz(bytes, "expected.npz");
  ASSERT_EQ(expected.size(), 44U);
  for (const auto& [name, array] : expected) {
    const std::string file = name.substr(0, name.find(".", name.find(".") + 1));
    const Shape shape{array.dimensions[0], array.dimensions[1], array.dimensions[2]};
    std::vector<uint8_t> pixels(static_cast<size_t>(shape.elements()));
    read_picture(kPictures / file, {.shape = shape, .fit = PictureFit::kStretch}, pixels);
    int worst = 0;
    for (size_t i = 0; i < pixels.size(); ++i) worst = std::max(worst, std::abs(pixels[i] - std::to_integer<int>(array.bytes[i])));
    EXPECT_LE(worst, 2) << name;
  }
}

TEST(Pictures, AreLeftAloneAtTheirOwnSize) {
  SKIP_WITHOUT_READERS();
  std::vector<uint8_t> own(3 * 47 * 61), cropped(3 * 40 * 40);
  read_picture(kPictures / "colour.png", {.shape = {3, 47, 61}}, own);
  // The middle of the picture brought to 47 rows is the picture's own middle.
  read_picture(kPictures / "colour.png", {.shape = {3, 40, 40}, .shorter = 47}, cropped);
  int worst = 0;
  for (size_t row = 0; row < 40; ++row)
    for (size_t column = 0; column < 40; ++column) {
      const auto at = [&](size_t y, size_t x) { return static_cast<int>(own[y * 61 + x]); };
      // 3.5 rows and 10.5 columns are cut off in front: between four pixels.
      const int between = (at(row + 3, column + 10) + at(row + 3, column + 11) + at(row + 4, column + 10) + at(row + 4, column + 11)) / 4;
      worst = std::max(worst, std::abs(between - cropped[row * 40 + column]));
    }
  EXPECT_LE(worst, 1);
}

TEST(Pictures, CutShortOrWithALyingHeaderAreRefused) {
  SKIP_WITHOUT_READERS();
  std::vector<uint8_t> pixels(3 * 16 * 16);
  const PictureForm form{.shape = {3, 16, 16}};
  for (const char* const name : {"colour.jpg", "progressive.jpg", "colour.png", "palette.png"}) {
    std::vector<std::byte> bytes = read_bytes(kPictures / name);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{20}, bytes.size() / 2, bytes.size() - 40})
      EXPECT_THROW(read_picture(std::span(bytes).first(size), name, form, pixels), Error) << name << " of " << size << " bytes";
  }
  // 65,000 x 65,000 pixels in 1,500 bytes: refused before memory is asked for.
  std::vector<std::byte> jpeg = read_bytes(kPictures / "colour.jpg");
  for (size_t i = 2; i + 9 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xff} && jpeg[i + 1] == std::byte{0xc0}) {
      jpeg[i + 5] = jpeg[i + 7] = std::byte{0xfd};
      break;
    }
  expect_error(ErrorCode::kMalformed, "at most", [&] { read_picture(jpeg, "big.jpg", form, pixels); });
  expect_error(ErrorCode::kMalformed, "neither a JPEG nor a PNG", [&] {
    read_picture(bytes_of({'G', 'I', 'F', '8'}), "a.jpg", form, pixels);
  });
}

// FOLDER/class/*.png: bytes of the given pictures.
void copy_pictures(const fs::path& folder, const std::vector<std::string>& names, int copies) {
  fs::create_directories(folder);
  for (int i = 0; i < copies; ++i) {
    const std::string& name = names[static_cast<size_t>(i) % names.size()];
    fs::copy_file(kPictures / name, folder / fmt::format("{:02}-{}", i, name));
  }
}

TEST(PictureFolders, HoldOutAShareOfEachClassBySeed) {
  SKIP_WITHOUT_READERS();
  const TemporaryFolder folder;
  copy_pictures(folder.path() / "cat", {"colour.jpg", "grey.png"}, 10);
  copy_pictures(folder.path() / "dog", {"clear.png", "subsampled.jpg", "palette.png"}, 20);
  folder.write("dog/notes.txt", "no picture");
  const std::string name = "pictures:" + folder.text() + ",size=3x12x14,hold-out=0.3";
  const DataSplit data = load_data(name);
  EXPECT_EQ(data.train.size(), 7 + 14);
  EXPECT_EQ(data.test.size(), 3 + 6);
  EXPECT_EQ(data.train.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train.shape, (Shape{3, 12, 14}));
  EXPECT_EQ(data.train.normalisation, data.test.normalisation);
  EXPECT_THAT(data.train.notes, testing::ElementsAre("1 files are no JPEG or PNG by their names and left out"));
  const auto files = [](const Dataset& part) { return std::get<std::shared_ptr<const PictureFiles>>(part.images); };
  std::set<std::string> all;
  for (const Dataset* part : {&data.train, &data.test})
    for (int64_t i = 0; i < part->size(); ++i) {
      EXPECT_TRUE(all.insert(files(*part)->name_of(i)).second);
      EXPECT_EQ(files(*part)->name_of(i).starts_with("cat/"), part->labels[static_cast<size_t>(i)] == 0);
    }
  EXPECT_EQ(all.size(), 30U);
  const DataSplit same = load_data(name), other = load_data(name + ",seed=2");
  std::vector<std::string> held[3];
  for (const auto& [split, names] : {std::pair{&data, &held[0]}, std::pair{&same, &held[1]}, std::pair{&other, &held[2]}})
    for (int64_t i = 0; i < split->test.size(); ++i) names->push_back(files(split->test)->name_of(i));
  EXPECT_EQ(held[0], held[1]);
  EXPECT_NE(held[0], held[2]);
}

TEST(PictureFolders, LieAsImageNetDoes) {
  SKIP_WITHOUT_READERS();
  const TemporaryFolder folder;
  for (const char* const part : {"train", "val"})
    for (const char* const name : {"n01", "n02", "n03"}) copy_pictures(folder.path() / part / name, {"colour.jpg"}, 2);
  const DataSplit data = load_data("pictures:" + folder.text() + ",size=1x8x8,resize=10,normalise=imagenet");
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(data.test.labels, data.train.labels);
  EXPECT_EQ(data.train.normalisation.mean, std::vector<double>{0.449});
  copy_pictures(folder.path() / "val" / "n09", {"colour.jpg"}, 1);
  expect_error(ErrorCode::kMismatch, "class \"n09\" is not among the 3", [&] { load_data("pictures:" + folder.text() + ",size=1x8x8"); });
  expect_error(ErrorCode::kUsage, "hold-out and seed have no effect",
               [&] { load_data("pictures:" + folder.text() + ",size=1x8x8,hold-out=0.1"); });
}

TEST(PictureFolders, NameAndCountDamagedFilesAndGoOn) {
  SKIP_WITHOUT_READERS();
  const TemporaryFolder folder;
  copy_pictures(folder.path() / "cat", {"colour.png"}, 6);
  copy_pictures(folder.path() / "dog", {"grey.png"}, 6);
  folder.write("cat/empty.jpg", "");
  folder.write("cat/page.png", "<html>404</html>");
  std::vector<std::byte> cut = read_bytes(kPictures / "colour.jpg");
  cut.resize(cut.size() / 2);
  folder.write("dog/cut.jpg", cut);
  // Header and end are there; what is between is not, which only decoding finds out.
  std::vector<std::byte> hollow = read_bytes(kPictures / "grey.png");
  std::fill(hollow.begin() + 60, hollow.end() - 60, std::byte{0x55});
  folder.write("dog/99-hollow.png", hollow);
  const std::string name = "pictures:" + folder.text() + ",size=3x8x8,hold-out=0.2";
  const DataSplit data = load_data(name + ",threads=3");
  EXPECT_EQ(data.train.size() + data.test.size(), 13);
  EXPECT_THAT(data.train.notes, testing::Contains("3 of 16 pictures are damaged and left out"));
  EXPECT_THAT(data.train.notes, testing::Contains(testing::HasSubstr("cat/empty.jpg: an empty file")));
  EXPECT_THAT(data.train.notes, testing::Contains(testing::HasSubstr("dog/cut.jpg: the file is cut short")));
  int64_t damaged = 0;
  for (const Dataset* part : {&data.train, &data.test}) {
    const auto& files = *std::get<std::shared_ptr<const PictureFiles>>(part->images);
    std::vector<uint8_t> pixels(3 * 8 * 8), good(pixels.size());
    for (int64_t i = 0; i < part->size(); ++i) {
      files.read(i, pixels);
      if (!files.name_of(i).ends_with("hollow.png")) continue;
      const bool alone = std::ranges::count(part->labels, 1) == 1;
      if (!alone) read_picture(kPictures / "grey.png", files.form(), good);
      EXPECT_EQ(pixels, good) << "another of its class stands in, or black";
    }
    damaged += files.damaged();
  }
  EXPECT_EQ(damaged, 1);
  expect_error(ErrorCode::kMalformed, "damaged=fail", [&] { load_data(name + ",damaged=fail"); });
}

TEST(PictureFolders, GiveTheSameBitsOnAnyNumberOfThreads) {
  SKIP_WITHOUT_READERS();
  const TemporaryFolder folder;
  copy_pictures(folder.path() / "cat", {"colour.jpg", "ink.jpg", "deep.png"}, 13);
  copy_pictures(folder.path() / "dog", {"clear.png", "bits.png", "grey.jpg"}, 17);
  std::vector<std::vector<float>> expected;
  for (const int64_t threads : {1, 2, 5}) {
    const DataSplit data = load_data(fmt::format("pictures:{},size=3x9x11,threads={}", folder.text(), threads));
    ASSERT_EQ(data.train.readers, threads);
    const BatchSampler order = BatchSampler::training(data.train.size(), 4, {.mini_batch = 8, .micro_batch = 2});
    const SampleSource source = sample_source(data.train, {.output = data.train.shape}, {.crop_padding = 1, .flip = true}, 4);
    Loader loader(source, order, {.prefetch = 2, .threads = threads});
    std::vector<std::vector<float>> seen;
    for (const int64_t s : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 30, 31, 2, 3}) {
      const Batch& batch = loader.load(s);
      seen.emplace_back(batch.pixels.begin(), batch.pixels.end());
    }
    if (expected.empty()) expected = seen;
    EXPECT_EQ(seen, expected) << threads << " threads";
  }
}

// Definition: the box has the drawn area and proportions wherever both fit, lies inside the picture, and spreads over all of it.
TEST(Pictures, ShowADrawnPart) {
  const Shape shape{3, 20, 30};
  const Shape picture{3, 200, 320};
  std::set<int64_t> areas, tops, lefts;
  int64_t wide = 0;
  constexpr uint32_t kDraws = 4000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const uint32_t word = i * 2654435761U;
    const PictureDraw draw{0.1, {word * 2246822519U, word, word * 3266489917U, word * 668265263U}};
    const PictureBox box = drawn_box(picture, shape, draw);
    const double rows = box.bottom - box.top, columns = box.right - box.left;
    const double ratio = columns / rows / 1.5, area = rows * columns / (200.0 * 320.0);
    EXPECT_GE(box.top, 0);
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.bottom, 200 + 1e-9);
    EXPECT_LE(box.right, 320 + 1e-9);
    EXPECT_GE(ratio, 0.75 - 1e-9);
    EXPECT_LE(ratio, 4.0 / 3 + 1e-9);
    const double wanted = 0.1 + 0.9 * static_cast<double>(draw.words[1]) * 0x1p-32;
    EXPECT_TRUE(std::abs(area - wanted) < 1e-9 || (area < wanted && (rows > 200 - 1e-6 || columns > 320 - 1e-6))) << area;
    areas.insert(static_cast<int64_t>(area * 10));
    tops.insert(static_cast<int64_t>(box.top / 20));
    lefts.insert(static_cast<int64_t>(box.left / 32));
    wide += ratio > 1 ? 1 : 0;
  }
  EXPECT_GE(areas.size(), 9U);
  EXPECT_GE(tops.size(), 7U);
  EXPECT_GE(lefts.size(), 7U);
  EXPECT_NEAR(static_cast<double>(wide) / kDraws, 0.5, 0.05);
  const PictureBox narrow = drawn_box({3, 1000, 10}, shape, {1, {0, UINT32_MAX, 0, UINT32_MAX}});  // whole area, as high as it gets
  EXPECT_NEAR(narrow.right - narrow.left, 10, 1e-6);
  EXPECT_NEAR(narrow.bottom - narrow.top, 10 / 1.5 / 0.75, 1e-6);
}

TEST(PictureFolders, ShowAnotherPartInEveryEpochAndTheMiddleInEvaluation) {
  SKIP_WITHOUT_READERS();
  const TemporaryFolder folder;
  copy_pictures(folder.path() / "cat", {"colour.jpg"}, 4);
  copy_pictures(folder.path() / "dog", {"clear.png"}, 4);
  const DataSplit data = load_data(fmt::format("pictures:{},size=3x9x11", folder.text()));
  const auto seen = [&](const Augmentation& augmentation, uint64_t seed, int64_t epoch, int64_t sample) {
    const SampleSource source = sample_source(data.train, {.output = data.train.shape}, augmentation, seed);
    std::vector<float> pixels(3 * 9 * 11);
    source.read(epoch, sample, pixels);
    return pixels;
  };
  const Augmentation part{.crop_area = 0.1};
  EXPECT_EQ(seen(part, 4, 2, 1), seen(part, 4, 2, 1));
  EXPECT_NE(seen(part, 4, 2, 1), seen(part, 4, 3, 1));
  EXPECT_NE(seen(part, 4, 2, 1), seen(part, 5, 2, 1));
  EXPECT_NE(seen(part, 4, 2, 1), seen(part, 4, 2, 2));  // the same file under another name
  EXPECT_EQ(seen({}, 4, 2, 1), seen({}, 5, 3, 2));
  const DataSplit digits = load_data("digits");
  expect_error(ErrorCode::kUsage, "give a crop padding instead",
               [&] { sample_source(digits.train, {.output = digits.train.shape}, part, 4); });
}

TEST(PictureFolders, AreNamedByWhatIsWrongWithTheirName) {
  const TemporaryFolder folder;
  const std::string name = "pictures:" + folder.text();
  expect_error(ErrorCode::kUsage, "size is missing", [&] { load_data(name); });
  expect_error(ErrorCode::kUsage, "size is \"2x8x8\"", [&] { load_data(name + ",size=2x8x8"); });
  expect_error(ErrorCode::kUsage, "did you mean \"threads\"", [&] { load_data(name + ",size=3x8x8,thread=2"); });
  expect_error(ErrorCode::kUsage, "given twice", [&] { load_data(name + ",size=3x8x8,size=3x8x8"); });
  expect_error(ErrorCode::kUsage, "resize=4 makes pictures smaller", [&] { load_data(name + ",size=3x8x8,resize=4"); });
  expect_error(ErrorCode::kMismatch, "a folder per class", [&] { load_data(name + ",size=3x8x8"); });
  expect_error(ErrorCode::kNotFound, "no such folder", [&] { load_data(name + "/nowhere,size=3x8x8"); });
}

}  // namespace
}  // namespace millrace
