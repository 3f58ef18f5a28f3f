// Pictures of a folder, decoded and resized to floats on one thread: processor seconds, for picture_reading.py.
//
//   bench_picture_reading FOLDER SIZE [PIXELS.bin]      every picture stretched to 3 x SIZE x SIZE; the file gets the bytes, in the order
//   of the names
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/picture_files.h"

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc < 3) return 2;
  const int64_t size = std::stoll(argv[2]);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * size * size));
  std::vector<float> floats(pixels.size());
  std::ofstream out;
  if (argc > 3) out.open(argv[3], std::ios::binary);
  int64_t damaged = 0;
  double sum = 0;
  const std::clock_t began = std::clock();
  for (const std::filesystem::path& file : files) {
    try {
      read_picture(file, {.shape = {3, size, size}, .fit = PictureFit::kStretch}, pixels);
    } catch (const Error&) {
      ++damaged;
      std::ranges::fill(pixels, uint8_t{0});
    }
    for (size_t i = 0; i < pixels.size(); ++i) floats[i] = static_cast<float>(pixels[i]) / 255;
    sum += static_cast<double>(floats[floats.size() / 2]);
    if (out.is_open()) out.write(reinterpret_cast<const char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  }
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  // Not getrusage: what the process was before exec counts there.
  double peak_megabytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:" && status >> peak_megabytes) peak_megabytes /= 1024;
  fmt::print("{{\"pictures\": {}, \"damaged\": {}, \"processor_seconds\": {}, \"peak_memory_MB\": {:.1f}, \"sum\": {}}}\n", files.size(),
             damaged, seconds, peak_megabytes, sum);
}
