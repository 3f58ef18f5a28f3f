#include "gpu/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace::gpu {

namespace {

double mebibytes(size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

// Rows, or a part of one, that fit into a pinned buffer.
struct Piece {
  size_t offset = 0;  // in the buffer
  size_t begin = 0;   // among the bytes of all rows
  size_t width = 0;
  size_t rows = 1;
  size_t size() const { return width * rows; }
};
std::vector<Piece> pieces_of(const Context::Rows& rows, size_t most) {
  std::vector<Piece> pieces;
  if (rows.width == 0) return pieces;
  // Rows without gaps are one.
  if (rows.rows > 1 && rows.pitch == rows.width)
    return pieces_of({.offset = rows.offset, .pitch = rows.width * rows.rows, .width = rows.width * rows.rows}, most);
  if (rows.width <= most) {
    const size_t together = most / rows.width;
    for (size_t row = 0; row < rows.rows; row += together)
      pieces.push_back({rows.offset + row * rows.pitch, row * rows.width, rows.width, std::min(together, rows.rows - row)});
    return pieces;
  }
  for (size_t row = 0; row < rows.rows; ++row)
    for (size_t at = 0; at < rows.width; at += most)
      pieces.push_back({rows.offset + row * rows.pitch + at, row * rows.width + at, std::min(most, rows.width - at), 1});
  return pieces;
}

}  // namespace

Buffer::~Buffer() {
  if (memory_ == nullptr) return;
  try {
    context_->wait_for(footprint_);
  } catch (const std::exception&) {  // the GPU is gone, and its memory with it
  }
  context_->engine().release(memory_);
}

Context::Context(std::unique_ptr<Engine> engine, const GpuOptions& options)
    : engine_(std::move(engine)), options_(options), book_(options.algorithms, engine_->facts()) {
  MILLRACE_CHECK(options_.staging_bytes > 0, "pinned buffers of no bytes");
  order_ = std::make_unique<QueueOrder>(*engine_);
}

Context::~Context() {
  try {
    engine_->synchronize();
  } catch (const std::exception&) {
  }
  for (Slots* slots : {&up_, &down_})
    for (const Slot& slot : *slots)
      if (slot.memory != nullptr) engine_->release_pinned(slot.memory);
}

void* Context::take(size_t bytes, std::string_view what) {
  void* memory = engine_->allocate(std::max<size_t>(bytes, 1));
  if (memory != nullptr) return memory;
  const MemoryState state = engine_->memory();
  fail(ErrorCode::kUnavailable,
       "{}: {:.1f} MiB of GPU memory wanted, {:.1f} of {:.1f} MiB free; take a smaller micro-batch, fewer micro-batches at a time, or "
       "spread the network over more devices",
       what, mebibytes(bytes), mebibytes(state.free), mebibytes(state.total));
}

Buffer Context::allocate(size_t bytes, std::string_view what) { return {*this, shared_from_this(), take(bytes, what), bytes}; }

void Context::reserve(Scratch scratch, size_t bytes, std::string_view what) {
  Buffer& mine = item(scratch_, scratch);
  if (mine.bytes() >= bytes) return;
  mine = Buffer();  // first: there may not be room for both
  mine = Buffer(*this, nullptr, take(bytes, what), bytes);
}

Context::Slot& Context::next(Slots& slots, size_t& turn) {
  Slot& slot = slots[turn];
  turn = (turn + 1) % slots.size();
  if (slot.memory == nullptr) {
    slot.memory = engine_->allocate_pinned(options_.staging_bytes);
    if (slot.memory == nullptr)
      fail(ErrorCode::kUnavailable, "{:.1f} MiB of pinned host memory wanted for copies to and from the GPU, and there is not as much",
           mebibytes(options_.staging_bytes));
  }
  return slot;
}

void Context::upload(const Buffer& to, const Rows& rows, const Give& give) {
  for (const Piece& piece : pieces_of(rows, options_.staging_bytes)) {
    Slot& slot = next(up_, up_turn_);
    order_->wait_here(Queue::kUpload, slot.ticket);
    give(piece.begin, slot.memory, piece.size());
    slot.ticket = issue(Queue::kUpload, {}, {&to}, [&] {
      engine_->copy(Queue::kUpload, {.from = slot.memory,
                                     .to = to.as<std::byte>() + piece.offset,
                                     .width = piece.width,
                                     .rows = piece.rows,
                                     .from_pitch = piece.width,
                                     .to_pitch = piece.rows == 1 ? piece.width : rows.pitch});
    });
    order_->leave_mark(Queue::kUpload);
  }
}

void Context::download(const Buffer& from, const Rows& rows, const Take& take) {
  const std::vector<Piece> pieces = pieces_of(rows, options_.staging_bytes);
  std::array<Slot*, 2> slots{};
  const auto collect = [&](size_t i) {
    order_->wait_here(Queue::kDownload, slots[i % 2]->ticket);
    take(pieces[i].begin, slots[i % 2]->memory, pieces[i].size());
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    Slot& slot = next(down_, down_turn_);
    slots[i % 2] = &slot;
    slot.ticket = issue(Queue::kDownload, {&from}, {}, [&] {
      engine_->copy(Queue::kDownload, {.from = from.as<std::byte>() + piece.offset,
                                       .to = slot.memory,
                                       .width = piece.width,
                                       .rows = piece.rows,
                                       .from_pitch = piece.rows == 1 ? piece.width : rows.pitch,
                                       .to_pitch = piece.width});
    });
    order_->leave_mark(Queue::kDownload);
    if (i > 0) collect(i - 1);
  }
  if (!pieces.empty()) collect(pieces.size() - 1);
}

const ConvolutionChoice& Context::choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase) {
  const std::string key = convolution_key(geometry, phase, options_.precision);
  if (const ConvolutionChoice* known = book_.find(key, options_.workspace_bytes)) return *known;
  return book_.enter(key, engine_->choose(geometry, phase, options_.precision, options_.workspace_bytes, options_.measure_algorithms));
}

}  // namespace millrace::gpu
