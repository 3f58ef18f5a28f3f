// What NCCL and CUDA do for lines between GPUs: communicators of two, streams, events and memory. The narrow side of transport/nccl:
// everything above it is plain C++ and is tested without a GPU; the real one is a module that is loaded at run time (line_module.h).
//
//   std::unique_ptr<LineEnd> end = driver.join(/*gpu=*/0, id, /*sends=*/true);   // the other rank joins with sends=false and the same id
//   while (!end->settled()) ...;                                                 // later: both are there
//   end->record_on(compute, event);  end->wait(event);                           // behind what fills the payload
//   end->transfer(payload, bytes);
//
// Nothing here waits for the other end. An event stands for what its queue had been given when it was last recorded, and lives as long as
// the end that made it. Failures are LineFailure, not Error: a driver may live in a module that links nothing of ours. One thread at a
// time; a driver outlives its ends and its memory.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace millrace {

// What both ends of a line need to find each other: NCCL's unique id.
using LineId = std::array<std::byte, 128>;

class LineFailure : public std::exception {
 public:
  enum class Kind { kNoMemory, kBroken };
  LineFailure(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}
  Kind kind() const { return kind_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Kind kind_;
  std::string text_;
};

// One end of a line, and a stream of its own.
class LineEnd {
 public:
  LineEnd() = default;
  // Gives the communicator back when finish() has settled, and else aborts it: the other end then fails.
  virtual ~LineEnd() = default;
  LineEnd(const LineEnd&) = delete;
  LineEnd& operator=(const LineEnd&) = delete;

  // What was asked last (joining, a transfer, finishing) has been taken in, and not: is done. Fails when it went wrong, or the other end
  // did.
  virtual bool settled() = 0;
  // Sends or receives, behind what the stream was given before. Only when settled.
  virtual void transfer(std::byte* payload, size_t bytes) = 0;
  // Nothing will be transferred any more.
  virtual void finish() = 0;

  virtual int make_event() = 0;
  virtual void record(int event) = 0;                  // on the stream
  virtual void record_on(void* queue, int event) = 0;  // on a queue of the same GPU, a cudaStream_t
  virtual void wait(int event) = 0;                    // the stream does
  virtual bool done(int event) = 0;
};

class LineDriver {
 public:
  LineDriver() = default;
  virtual ~LineDriver() = default;
  LineDriver(const LineDriver&) = delete;
  LineDriver& operator=(const LineDriver&) = delete;

  // `2.28.9`: of the library in use. Both ends want the same.
  virtual std::string version() = 0;
  virtual LineId make_id() = 0;
  virtual std::unique_ptr<LineEnd> join(int gpu, const LineId& id, bool sends) = 0;
  virtual std::byte* allocate(int gpu, size_t bytes) = 0;
  virtual void release(int gpu, std::byte* memory) noexcept = 0;
};

}  // namespace millrace
