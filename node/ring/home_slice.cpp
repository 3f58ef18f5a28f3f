#include "node/ring/home_slice.h"

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/schedule.h"

namespace millrace {

HomeSlice::HomeSlice(const Plan& plan, size_t home, Device& device) : plan_(plan), home_(home), device_(device) {
  const auto make = [&] { return device.make_tensor({.shape = {where().count, 1, 1}, .batch = 1}); };
  for (int64_t v = 0; v < versions_held(schedule_spec(plan, where().user, 1)); ++v) versions_.push_back(make());
  gradient_ = make();
  incoming_ = make();
  for (int slot = 0; slot < plan.optimizer.slots(); ++slot) {
    slots_.push_back(make());
    device.zero(*slots_.back());
  }
}

int64_t HomeSlice::bytes() const {
  int64_t bytes = gradient_->bytes() + incoming_->bytes();
  for (const auto& version : versions_) bytes += version->bytes();
  for (const auto& slot : slots_) bytes += slot->bytes();
  return bytes;
}

void HomeSlice::set(std::span<const double> values) {
  for (const auto& version : versions_) device_.write(*version, whole(*version), values);
}
void HomeSlice::set(std::span<const double> values, int64_t version) {
  device_.write(version_of(version), whole(version_of(version)), values);
}
void HomeSlice::set_previous(std::span<const double> values) {
  if (versions_.size() > 1)
    set(values, newest_ - 1);
  else
    previous_.assign(values.begin(), values.end());
}
void HomeSlice::set_slot(int slot, std::span<const double> values) {
  Tensor& tensor = *item(slots_, slot);
  device_.write(tensor, whole(tensor), values);
}
void HomeSlice::read_slot(int slot, std::span<double> values) const {
  const Tensor& tensor = *item(slots_, slot);
  device_.read(tensor, whole(tensor), values);
}

void HomeSlice::read(int64_t version, HostNumbers values) const {
  if (version < newest_ && versions_.size() == 1 && !previous_.empty()) return values.assign(previous_);
  device_.read(version_of(version), whole(version_of(version)), values);
}
void HomeSlice::read_average(int64_t version, HostNumbers values) const {
  read(version, values);
  if (!plan_.optimizer.averages()) return;
  values.visit([&]<typename Number>(std::span<Number> sums) {
    std::vector<Number> offsets(sums.size());
    device_.read(*slots_.back(), whole(*slots_.back()), offsets);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += offsets[i];
  });
}

void HomeSlice::add_gradient(ConstHostNumbers values) {
  MILLRACE_CHECK(!complete(), "{}.{}: more gradients than micro-batches", where().layer, where().tensor);
  Tensor& target = gradients_ == 0 ? *gradient_ : *incoming_;
  device_.write(target, whole(target), values);
  if (gradients_ > 0) device_.copy_channels(*incoming_, whole(*incoming_), *gradient_, 0, true);
  ++gradients_;
}

void HomeSlice::update(const UpdateArguments& arguments) {
  MILLRACE_CHECK(complete(), "{}.{}: an update after {} gradients", where().layer, where().tensor, gradients_);
  Tensor& next = version_of(newest_ + 1);
  if (versions_.size() > 1) device_.copy(version_of(newest_), next);
  std::vector<Tensor*> slots;
  for (const auto& slot : slots_) slots.push_back(slot.get());
  device_.update(arguments, next, *gradient_, slots);
  ++newest_;
  gradients_ = 0;
  previous_.clear();
}

}  // namespace millrace
