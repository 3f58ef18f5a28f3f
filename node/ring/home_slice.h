// A slice of parameters where it is stored: its versions, its gradient summed by micro-batch, its optimizer's state. Every
// slice of a layer that uses any of another device's memory is one, the local ones too.
//
//   HomeSlice slice(plan, graph, home_index, device);
//   slice.set(version, values);                           // of the slice, as numbers
//   slice.add_gradient(numbers);                          // of micro-batch s, in ascending s
//   slice.update(arguments);                              // version + 1 out of version
//
// Borrows plan and device. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/ring/updatable.h"

namespace millrace {

class HomeSlice final : public Updatable {
 public:
  HomeSlice(const Plan& plan, size_t home, Device& device);

  const ParameterHome& where() const { return plan_.homes[home_]; }
  size_t home() const { return home_; }
  // Its user is another device: it is updated as soon as all gradients are here. Otherwise its user says when.
  bool remote() const { return where().home != where().user; }
  int64_t newest() const { return newest_; }
  bool complete() const { return gradients_ == plan_.micro_batches(); }
  int64_t bytes() const;

  // All versions, from the elements of this slice.
  void set(std::span<const double> values);
  void set(std::span<const double> values, int64_t version);
  void set_newest(int64_t version) { newest_ = version; }
  // The version before the newest, for micro-batches that go forward again after a resumption.
  void set_previous(std::span<const double> values);
  void set_slot(int slot, std::span<const double> values);
  void read(int64_t version, HostNumbers values) const;
  void read_slot(int slot, std::span<double> values) const;
  // As read(), with the average of the weights where the optimizer keeps one.
  void read_average(int64_t version, HostNumbers values) const;

  void add_gradient(ConstHostNumbers values);

  int64_t due() override { return remote() && complete() ? newest_ : -1; }
  int64_t gradient_elements() const override { return where().count; }
  void read_gradients(HostNumbers values) override { device_.read(*gradient_, whole(*gradient_), values); }
  void write_gradients(ConstHostNumbers values) override { device_.write(*gradient_, whole(*gradient_), values); }
  double squared_gradient_norm() override { return device_.squared_norm(*gradient_); }
  void update(const UpdateArguments& arguments) override;

 private:
  Tensor& version_of(int64_t version) const { return *versions_[to_size(version) % versions_.size()]; }

  const Plan& plan_;
  size_t home_;
  Device& device_;
  std::vector<std::unique_ptr<Tensor>> versions_;
  std::unique_ptr<Tensor> gradient_;
  std::unique_ptr<Tensor> incoming_;
  std::vector<std::unique_ptr<Tensor>> slots_;
  std::vector<double> previous_;  // until the first update
  int64_t newest_ = 0;
  int64_t gradients_ = 0;  // summed so far
};

}  // namespace millrace
