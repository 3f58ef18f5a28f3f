#include "partitioner/study/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/index.h"

namespace millrace {

int default_threads() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8); }

void for_each_in_parallel(size_t turns, int threads, const std::function<void(size_t)>& turn) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  size_t error_turn = turns;
  const auto work = [&] {
    while (true) {
      const size_t mine = next++;
      if (mine >= turns) return;
      try {
        turn(mine);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (mine < error_turn) {
          error_turn = mine;
          error = std::current_exception();
        }
        next = turns;
      }
    }
  };
  std::vector<std::thread> others;
  const size_t count = std::min<size_t>(to_size(std::max(threads, 1)), turns);
  for (size_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace millrace
