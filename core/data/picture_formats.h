// The two readers behind picture.h, each over a library of its own that a build may lack. Internal to core/data.
//
//   decode_jpeg(bytes, "cat.jpg", facts, sink);
//
// Facts are what the header said; a body that says otherwise is kMalformed.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/data/picture.h"

namespace millrace {

Shape read_jpeg_shape(std::span<const std::byte> bytes, std::string_view origin);
void decode_jpeg(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink);
void decode_png(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink);

}  // namespace millrace
