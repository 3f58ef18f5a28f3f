#include "transport/nccl/announced_wire.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/nccl/announcement.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

std::string text_of(const LineName& name) {
  return fmt::format("{} rank {} ({})", name.outgoing ? "sending to" : "receiving from", name.peer, name_of(name.direction));
}

// Its headers and announcements are a channel of the host wire.
class AnnouncedWire::DeviceChannel final : public Channel {
 public:
  DeviceChannel(const ChannelSpec& spec, size_t index, Channel& host, std::shared_ptr<std::byte> memory, AnnouncedLine& line)
      : Channel({{host.layout().first.header, memory.get()}, host.layout().header_stride, aligned(spec.payload_bytes)}),
        spec_(spec),
        index_(index),
        host_(host),
        memory_(std::move(memory)),
        line_(line),
        leaving_(spec.slots, false) {}

  void send(size_t slot, size_t payload_bytes) override {
    std::byte* payload = this->slot(slot).payload;
    line_.queue().in_use(payload);
    leaving_[slot] = true;
    const uint64_t ordinal = line_.send({payload, payload_bytes, index_, slot});
    write_announcement({.ordinal = ordinal, .bytes = payload_bytes, .tag = spec_.tag}, host_.slot(slot).payload);
    host_.send(slot, kAnnouncementBytes);
  }
  bool sent(size_t slot) override { return !leaving_[slot] && host_.sent(slot); }
  void receive_again(size_t slot) override {
    line_.queue().in_use(this->slot(slot).payload);
    host_.receive_again(slot);
  }

  const ChannelSpec& spec() const { return spec_; }
  AnnouncedLine& line() { return line_; }

  // The host wire has brought an announcement.
  void accept(size_t frame_bytes) {
    const size_t slot = next_;
    next_ = next_ + 1 == spec_.slots ? 0 : next_ + 1;
    const size_t bytes = frame_bytes < kFrameHeaderBytes ? 0 : frame_bytes - kFrameHeaderBytes;
    const Announcement read = parse_announcement({host_.slot(slot).payload, bytes}, line_.name());
    if (read.tag != spec_.tag || read.bytes > spec_.payload_bytes)
      fail(ErrorCode::kMismatch, "{}: {} bytes were announced for channel {}, and channel {} takes {}; the ranks follow different plans",
           line_.name(), read.bytes, read.tag, spec_.tag, spec_.payload_bytes);
    line_.receive(read.ordinal, {this->slot(slot).payload, to_size(read.bytes), index_, slot});
  }
  void has_left(size_t slot) { leaving_[slot] = false; }

 private:
  ChannelSpec spec_;
  size_t index_;
  Channel& host_;
  std::shared_ptr<std::byte> memory_;
  AnnouncedLine& line_;
  std::vector<bool> leaving_;  // per slot: the payload has not left yet
  size_t next_ = 0;            // receiving: the slot of the next announcement
};

AnnouncedWire::AnnouncedWire(std::unique_ptr<Wire> host, std::unique_ptr<DeviceSide> device)
    : Wire(host->rank(), host->ranks()), host_(std::move(host)), device_(std::move(device)) {}

AnnouncedWire::~AnnouncedWire() {
  // All lines say so before the first one waits: ranks that left them one by one in different orders would wait in a circle.
  for (const OpenLine& open : lines_) open.line->queue().leave();
  lines_.clear();
}

AnnouncedLine& AnnouncedWire::line_of(const LineName& name) {
  for (const OpenLine& open : lines_)
    if (open.name == name) return *open.line;
  if (!device_)
    fail(ErrorCode::kUnavailable, "{}: no accelerator of this rank takes part in messages; keep them in host memory", text_of(name));
  lines_.push_back({name, std::make_unique<AnnouncedLine>(text_of(name), device_->connect(name))});
  return *lines_.back().line;
}

Channel& AnnouncedWire::open(const ChannelSpec& spec) {
  ChannelSpec below = spec;
  Incoming incoming{.token = spec.token};
  if (spec.device_memory) {
    const LineName name{spec.peer, spec.outgoing, spec.direction};
    AnnouncedLine& line = line_of(name);
    std::shared_ptr<std::byte> memory = device_->allocate(name, spec.slots * aligned(spec.payload_bytes));
    below.device_memory = false;
    below.payload_bytes = kAnnouncementBytes;
    below.token = incoming_.size();
    incoming.channel = channels_.size();
    Channel& host = host_->open(below);
    channels_.push_back(std::make_unique<DeviceChannel>(spec, channels_.size(), host, std::move(memory), line));
    if (!spec.outgoing) incoming_.push_back(incoming);
    return *channels_.back();
  }
  below.token = incoming_.size();
  Channel& channel = host_->open(below);
  if (!spec.outgoing) incoming_.push_back(incoming);
  return channel;
}

void AnnouncedWire::settle(AnnouncedLine& line, std::vector<Arrival>& arrivals) {
  finished_.clear();
  line.progress(finished_);
  for (const Transfer& transfer : finished_) {
    DeviceChannel& channel = *channels_[transfer.channel];
    if (channel.spec().outgoing)
      channel.has_left(transfer.slot);
    else
      arrivals.push_back({channel.spec().token, kFrameHeaderBytes + transfer.bytes});
  }
}

Instant AnnouncedWire::progress(std::vector<Arrival>& arrivals) {
  seen_.clear();
  const Instant next = host_->progress(seen_);
  for (const Arrival& arrival : seen_) {
    const Incoming& incoming = incoming_[arrival.token];
    if (incoming.channel == kNone)
      arrivals.push_back({incoming.token, arrival.frame_bytes});
    else
      channels_[incoming.channel]->accept(arrival.frame_bytes);
  }
  for (const OpenLine& open : lines_) settle(*open.line, arrivals);
  return next;
}

}  // namespace millrace
