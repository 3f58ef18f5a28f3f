#include "transport/streams/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/files.h"
#include "core/base/index.h"

namespace millrace {

namespace {

// Every call has a kind of its own: who is ahead may send for the next one already.
uint32_t kind_of(uint64_t ordinal) { return kFirstReservedKind + static_cast<uint32_t>(ordinal % kFirstReservedKind); }
constexpr size_t kNameBytes = 40;
constexpr size_t kDigestBytes = 32;
constexpr uint64_t kMostBytesOfDocuments = uint64_t{1} << 33;

// Before the content of every part.
struct Preamble {
  uint64_t ordinal = 0;  // which call it is
  uint64_t total = 0;    // bytes of the whole content
  uint32_t call = 0;
  uint32_t zero = 0;
  std::array<char, kNameBytes> name{};
  std::array<char, kDigestBytes> digest{};
};

template <size_t kSize>
void put(std::array<char, kSize>& to, std::string_view text) {
  text.copy(to.data(), kSize);
}
template <size_t kSize>
std::string_view get(const std::array<char, kSize>& from) {
  return {from.data(), to_size(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

constexpr std::array<std::string_view, 3> kCallNames = {"barrier", "broadcast", "gather"};

}  // namespace

struct Agreement::Part {
  int64_t source = 0;
  uint64_t total = 0;
  std::string digest;
  std::string content;
};

void Agreement::begin(Call call, std::string_view name) {
  ++calls_;
  call_ = call;
  name_ = name.substr(0, kNameBytes);
}

std::string Agreement::where() const { return fmt::format("{} \"{}\"", item(kCallNames, call_), name_); }

void Agreement::send_part(int64_t to, uint64_t total, std::string_view digest, std::string_view content) {
  Preamble preamble;
  preamble.ordinal = calls_;
  preamble.total = total;
  preamble.call = static_cast<uint32_t>(call_);
  put(preamble.name, name_);
  put(preamble.digest, digest);
  std::vector<std::byte> payload(sizeof(preamble) + content.size());
  std::memcpy(payload.data(), &preamble, sizeof(preamble));
  if (!content.empty()) std::memcpy(payload.data() + sizeof(preamble), content.data(), content.size());
  transport_.send_control(to, kind_of(calls_), payload);
}

void Agreement::send_parts(int64_t to, std::string_view content) {
  if (content.size() > kMostBytesOfDocuments)
    fail(ErrorCode::kUsage, "{}: {} bytes; at most {} travel this way", where(), content.size(), kMostBytesOfDocuments);
  const std::string digest = digest_of(content);
  const uint64_t total = content.size();
  const size_t most = transport_.most_control_payload() - sizeof(Preamble);
  do {
    const std::string_view part = content.substr(0, most);
    content.remove_prefix(part.size());
    send_part(to, total, digest, part);
    transport_.progress();
  } while (!content.empty());
}

Agreement::Part Agreement::await_part(int64_t from) {
  const ControlMessage message = transport_.await_control(kind_of(calls_), where(), from);
  Preamble preamble;
  if (message.payload.size() < sizeof(preamble))
    fail(ErrorCode::kMalformed, "{}: rank {} sent {} bytes", where(), message.source, message.payload.size());
  std::memcpy(&preamble, message.payload.data(), sizeof(preamble));
  if (preamble.ordinal != calls_ || preamble.call != static_cast<uint32_t>(call_) || get(preamble.name) != name_)
    fail(ErrorCode::kMismatch, "rank {} is in call {}, {} \"{}\", while rank {} is in call {}, {}; all ranks must do the same",
         message.source, preamble.ordinal, kCallNames[std::min<size_t>(preamble.call, kCallNames.size() - 1)], get(preamble.name),
         transport_.rank(), calls_, where());
  const char* content = reinterpret_cast<const char*>(message.payload.data());
  return {message.source, preamble.total, std::string(get(preamble.digest)),
          std::string(content + sizeof(preamble), content + message.payload.size())};
}

// Adds a part to what has come of a content; true when that is all of it.
bool Agreement::complete(std::string& content, const Part& part) const {
  content += part.content;
  if (content.size() > part.total || (part.content.empty() && part.total > 0))
    fail(ErrorCode::kMismatch, "{}: {} bytes arrived from rank {} of {}", where(), content.size(), part.source, part.total);
  if (content.size() < part.total) return false;
  if (const std::string digest = digest_of(content); digest != part.digest)
    fail(ErrorCode::kMismatch, "{}: what arrived on rank {} has digest {}, what rank {} sent has {}", where(), transport_.rank(), digest,
         part.source, part.digest);
  return true;
}

void Agreement::barrier(std::string_view name) {
  begin(Call::kBarrier, name);
  const int64_t ranks = transport_.ranks();
  if (ranks == 1) return;
  const int64_t rank = transport_.rank();
  const int64_t next = (rank + 1) % ranks;
  const int64_t previous = (rank + ranks - 1) % ranks;
  // Once round to collect, once round to let go: who gets the token a second time knows that all have come.
  if (rank == 0) {
    send_part(next, 0, {}, {});
    await_part(previous);
    send_part(next, 0, {}, {});
  } else {
    await_part(previous);
    send_part(next, 0, {}, {});
    await_part(previous);
    if (next != 0) send_part(next, 0, {}, {});
  }
  transport_.progress();
}

std::string Agreement::broadcast(std::string_view what, std::string_view content) {
  begin(Call::kBroadcast, what);
  if (transport_.rank() == 0) {
    send_parts(kEveryRank, content);
    return std::string(content);
  }
  std::string received;
  while (!complete(received, await_part(0))) {
  }
  return received;
}

std::vector<std::string> Agreement::gather(std::string_view what, std::string_view mine) {
  begin(Call::kGather, what);
  if (transport_.rank() != 0) {
    send_parts(0, mine);
    return {};
  }
  const auto ranks = to_size(transport_.ranks());
  std::vector<std::string> all(ranks);
  std::vector<bool> done(ranks, false);
  all[0] = mine;
  done[0] = true;
  for (size_t missing = ranks - 1; missing > 0;) {
    const auto absent = static_cast<int64_t>(std::find(done.begin(), done.end(), false) - done.begin());
    const Part part = await_part(absent);
    const auto source = to_size(part.source);
    if (done[source]) fail(ErrorCode::kMismatch, "{}: rank {} sent more than it announced", where(), part.source);
    if (!complete(all[source], part)) continue;
    done[source] = true;
    --missing;
  }
  return all;
}

void Agreement::verdict(ErrorCode code, std::string_view problem) {
  const std::string said = broadcast("verdict", problem);
  if (!said.empty()) fail(code, "{}", said);
}

void Agreement::require_equal(std::string_view what, std::string_view value) {
  const std::vector<std::string> all = gather(what, value);
  std::string problem;
  for (size_t r = 1; r < all.size() && problem.empty(); ++r)
    if (all[r] != all[0]) problem = fmt::format("{}: rank {} has \"{}\", rank 0 has \"{}\"; all ranks must agree", what, r, all[r], all[0]);
  verdict(ErrorCode::kMismatch, problem);
}

void Agreement::require_all(std::string_view what, std::string_view problem, ErrorCode code) {
  const std::vector<std::string> all = gather(what, problem);
  std::string first;
  for (size_t r = 0; r < all.size() && first.empty(); ++r)
    if (!all[r].empty()) first = fmt::format("{}: rank {}: {}", what, r, all[r]);
  verdict(code, first);
}

void Agreement::close() {
  transport_.drain();
  barrier("close");
  transport_.leave();
}

}  // namespace millrace
