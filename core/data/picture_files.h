// A folder of pictures as a data set: a folder per class, read when they are asked for.
//
//   const DataSplit data = load_pictures("/data/flowers,size=3x64x64,hold-out=0.1,threads=4", "pictures:...");
//   std::get<std::shared_ptr<const PictureFiles>>(data.train.images)->read(17, pixels);      // [channel][row][column]
//
// FOLDER/train and FOLDER/val (or validation, valid, test), each with a folder per class, as ImageNet lies: taken as they are. FOLDER with
// a folder per class: of every class a share is held out, drawn by seed. Classes come in the order of their names.
// When the folder is opened, each picture's header and end are looked at on `threads` threads: what is no picture, or was cut short, is
// left out, named and counted in Dataset::notes. A picture that turns out damaged only when it is decoded is replaced by the next one of
// its class that is not (black where none is left), and named in the log: labels stay true, and what a sample is depends on the files
// alone. With damaged=fail either is an error. Reading is thread safe; memory: the names, and for each reading thread a file and a few rows
// of its picture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/data/dataset.h"
#include "core/data/resize.h"

namespace millrace {

// How one picture becomes a sample.
struct PictureForm {
  Shape shape;
  PictureFit fit = PictureFit::kCrop;
  int64_t shorter = 0;  // see crop_of
  bool operator==(const PictureForm&) const = default;
};
// "size=3x64x64,resize=72": as in a data set's name.
std::string text_of(const PictureForm& form);

// By its extension alone: .jpg, .jpeg, .png, in capitals or not.
bool is_picture_name(const std::filesystem::path& path);

// One file, decoded and resized. Fails as picture.h says, and with kNotFound or kIo.
// With a draw, a part of the picture instead of what the form's fit says.
void read_picture(const std::filesystem::path& path, const PictureForm& form, std::span<uint8_t> pixels, const PictureDraw* draw = nullptr);
void read_picture(std::span<const std::byte> bytes, std::string_view origin, const PictureForm& form, std::span<uint8_t> pixels,
                  const PictureDraw* draw = nullptr);

class PictureFiles {
 public:
  struct Entry {
    std::string path;  // below the folder
    int32_t label = 0;
  };
  // Entries of a class lie one behind the other.
  PictureFiles(std::filesystem::path folder, std::vector<Entry> entries, PictureForm form, bool damaged_is_fatal);

  const PictureForm& form() const { return form_; }
  std::string name_of(int64_t sample) const { return item(entries_, sample).path; }
  void read(int64_t sample, std::span<uint8_t> pixels, const PictureDraw* draw = nullptr) const;
  // How many turned out damaged when they were decoded.
  int64_t damaged() const;

 private:
  bool try_to_read(int64_t sample, std::span<uint8_t> pixels, const PictureDraw* draw) const;
  int64_t following(int64_t sample) const;

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  PictureForm form_;
  bool damaged_is_fatal_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::string> damaged_;  // sample -> why
};

// What a name says behind "pictures:". `what` is the whole name, for messages. Fails with kUsage, kNotFound, kMismatch.
//   | setting   | means                                                                                      | unless given |
//   | size      | CHANNELSxHEIGHTxWIDTH of a sample, 1 or 3 channels                                         | required     |
//   | resize    | pixels of the shorter side before the middle is cut out                                    | fills size   |
//   | fit       | crop: the middle of the picture; stretch: all of it                                        | crop         |
//   | hold-out  | share of each class that is tested on, where there are no folders train and val            | 0.2          |
//   | seed      | of that draw                                                                               | 1            |
//   | threads   | that read                                                                                  | 1            |
//   | normalise | measured (on 256 of them), imagenet (what torchvision's weights expect), none              | measured     |
//   | damaged   | skip, fail                                                                                 | skip         |
DataSplit load_pictures(std::string_view arguments, std::string_view what);

}  // namespace millrace
