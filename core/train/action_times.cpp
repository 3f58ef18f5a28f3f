#include "core/train/action_times.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/train/strict_json.h"

namespace millrace {
namespace {

constexpr const char* kWhat = "what the actions of a ring's devices take, measured";
constexpr size_t kMostKept = size_t{1} << 16;
// A day: longer than any action, and short enough for the simulator's picoseconds.
constexpr double kLongest = 86400;

using Field = ActionTime DeviceActionTimes::*;
constexpr std::pair<const char*, Field> kFields[] = {{"forward", &DeviceActionTimes::forward},
                                                     {"error_back", &DeviceActionTimes::error_back},
                                                     {"parameter_gradient", &DeviceActionTimes::parameter_gradient},
                                                     {"update", &DeviceActionTimes::update}};

int kind_index(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return 0;
    case ActionKind::kErrorBack: return 1;
    case ActionKind::kParameterGradient: return 2;
    case ActionKind::kUpdate: return 3;
    case ActionKind::kValidate: break;
  }
  return -1;
}

double median_of(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double checked_seconds(JsonFields& fields, const char* name) {
  const double seconds = fields.number(name);
  if (!(seconds >= 0 && seconds <= kLongest))
    fail(ErrorCode::kMalformed, "{}: \"{}\" is {:g}; an action takes from 0 to {:g} s", fields.where(), name, seconds, kLongest);
  return seconds;
}

}  // namespace

const ActionTime* DeviceActionTimes::of(ActionKind kind) const {
  const int index = kind_index(kind);
  return index < 0 ? nullptr : &(this->*kFields[index].second);
}

ActionStopwatch::Moment ActionStopwatch::of_this_thread() { return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_THREAD_CPUTIME_ID)}; }

void ActionStopwatch::begin() {
  const Moment moment = now_();
  if (counting_) between_ += of_processor_ ? moment.processor - since_.processor : moment.wall - since_.wall;
  since_ = moment;
}

void ActionStopwatch::end(int64_t device, ActionKind kind) {
  const Moment moment = now_();
  Device& measured = devices_[device];
  const int index = kind_index(kind);
  if (measured.warm && index >= 0 && item(measured.seconds, index).size() < kMostKept) {
    const double wall = moment.wall - since_.wall;
    item(measured.wall_seconds, index).push_back(static_cast<float>(wall));
    item(measured.seconds, index).push_back(static_cast<float>(of_processor_ ? moment.processor - since_.processor : wall));
  }
  if (counting_) ++actions_;
  measured.warm = measured.warm || kind == ActionKind::kUpdate;
  counting_ = counting_ || measured.warm;
  since_ = moment;
}

void ActionStopwatch::pause() {
  const Moment moment = now_();
  if (counting_) between_ += of_processor_ ? moment.processor - since_.processor : moment.wall - since_.wall;
  since_ = moment;
}

void ActionStopwatch::resume(bool at_a_cost) {
  const Moment moment = now_();
  if (counting_ && at_a_cost) waiting_ += moment.processor - since_.processor;
  since_ = moment;
}

std::string ActionStopwatch::encoded() const {
  nlohmann::json devices = nlohmann::json::array();
  for (const auto& [index, measured] : devices_) {
    const auto actions = static_cast<double>(std::max<int64_t>(1, actions_));
    nlohmann::json device{{"index", index}, {"between_seconds", between_ / actions}, {"waiting_seconds", waiting_ / actions}};
    for (size_t k = 0; k < kKinds; ++k)
      device[kFields[k].first] = {{"seconds", median_of(measured.seconds[k])},
                                  {"wall_seconds", median_of(measured.wall_seconds[k])},
                                  {"count", measured.seconds[k].size()}};
    devices.push_back(std::move(device));
  }
  return devices.dump();
}

namespace {

DeviceActionTimes device_from(JsonFields& fields) {
  DeviceActionTimes times;
  times.between_seconds = checked_seconds(fields, "between_seconds");
  times.waiting_seconds = checked_seconds(fields, "waiting_seconds");
  for (const auto& [name, field] : kFields) {
    JsonFields of_kind(fields.value(name), fields.where() + ": " + name);
    times.*field = {checked_seconds(of_kind, "seconds"), checked_seconds(of_kind, "wall_seconds"), of_kind.integer("count")};
    of_kind.no_others();
  }
  fields.no_others();
  return times;
}

// `rank` acted for all of them; -1: the text says who did.
void take_devices(ActionTimes& times, const nlohmann::json& devices, int64_t rank, const std::string& origin) {
  if (!devices.is_array()) fail(ErrorCode::kMalformed, "{}: \"devices\" is no list", origin);
  const auto count = static_cast<int64_t>(times.devices.size());
  std::vector<bool> given(times.devices.size());
  for (const nlohmann::json& entry : devices) {
    JsonFields fields(entry, origin + ": a device");
    const auto index = to_size(fields.integer("index", 0, count - 1));
    if (given[index]) fail(ErrorCode::kMalformed, "{}: device {} is there twice", origin, index);
    given[index] = true;
    JsonFields named(entry, origin + ": device " + std::to_string(index));
    named.integer("index");
    const int64_t acted = rank >= 0 ? rank : named.integer("rank", 0, times.ranks - 1);
    times.devices[index] = device_from(named);
    times.devices[index].rank = acted;
  }
}

}  // namespace

ActionTimes action_times(const Plan& plan, const std::vector<std::string>& ranks) {
  ActionTimes times;
  times.plan_digest = digest_of(text_of(plan));
  times.ranks = static_cast<int64_t>(ranks.size());
  times.devices.resize(to_size(plan.devices()));
  for (size_t r = 0; r < ranks.size(); ++r)
    take_devices(times, parse_strict_json(ranks[r], "a rank's times"), static_cast<int64_t>(r), "a rank's times");
  for (size_t d = 0; d < times.devices.size(); ++d)
    if (times.devices[d].update.count == 0)
      fail(ErrorCode::kUsage, "device {} made no second update, and the first one allocates: train for two at least to measure", d);
  return times;
}

std::string text_of(const ActionTimes& times) {
  nlohmann::ordered_json document{{"what", kWhat}, {"plan_digest", times.plan_digest}, {"ranks", times.ranks}};
  document["devices"] = nlohmann::ordered_json::array();
  for (size_t d = 0; d < times.devices.size(); ++d) {
    nlohmann::ordered_json device{{"index", d},
                                  {"rank", times.devices[d].rank},
                                  {"between_seconds", times.devices[d].between_seconds},
                                  {"waiting_seconds", times.devices[d].waiting_seconds}};
    for (const auto& [name, field] : kFields) {
      const ActionTime& time = times.devices[d].*field;
      device[name] = {{"seconds", time.seconds}, {"wall_seconds", time.wall_seconds}, {"count", time.count}};
    }
    document["devices"].push_back(std::move(device));
  }
  return document.dump(1) + "\n";
}

void save(const ActionTimes& times, const std::filesystem::path& path) { write_atomically(path, text_of(times)); }

ActionTimes load_action_times(const std::filesystem::path& path, const Plan& plan) {
  const std::string origin = path.string();
  const nlohmann::json document = parse_strict_json(read_text(path), origin);
  JsonFields fields(document, origin);
  if (fields.text("what") != kWhat)
    fail(ErrorCode::kMalformed, "{}: no file of measured times; millrace train --times-out writes one", origin);
  ActionTimes times;
  times.plan_digest = fields.text("plan_digest");
  if (times.plan_digest != digest_of(text_of(plan)))
    fail(ErrorCode::kMismatch, "{}: measured with another plan; measure this one: millrace train --plan ... --times-out {}", origin,
         origin);
  times.ranks = fields.integer("ranks", 1);
  times.devices.resize(to_size(plan.devices()));
  const nlohmann::json& devices = fields.value("devices");
  take_devices(times, devices, -1, origin);
  if (devices.size() != times.devices.size())
    fail(ErrorCode::kMalformed, "{}: times of {} devices, where the plan has {}", origin, devices.size(), times.devices.size());
  fields.no_others();
  return times;
}

}  // namespace millrace
