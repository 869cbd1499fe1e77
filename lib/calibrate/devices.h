// What a run computes on: one device, or several of one class that share its sequences.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/ops.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

class Devices {
 public:
  struct Named {
    std::string name;  // "cuda:1"
    std::unique_ptr<Ops> op;
  };

  Devices() = default;
  /// Implicit: whoever opens one device has a run's devices.
  Devices(std::unique_ptr<Ops> one);
  /// Throws Error naming two of different classes: the bytes of a run are those of one class.
  explicit Devices(std::vector<Named> several);

  size_t size() const { return devices_.size(); }
  Ops& op(size_t i) const { return *devices_[i].op; }
  const std::string& name(size_t i) const { return devices_[i].name; }
  std::string isa() const { return isa_; }

  /// Of the device that has least of it now.
  DeviceMemory memory() const;

  /// The device where there is one alone.
  std::unique_ptr<Ops> take_only() { return std::move(devices_.at(0).op); }

  std::vector<std::string> notes() const;

 private:
  std::vector<Named> devices_;
  std::string isa_;
};

/// Opens what will compute. Called once, when config, prompts and weights are known to be good.
using OpenDevices = std::function<Devices()>;

/// The sequences of each of n devices, dealt as a plan's are to n shards; of fewer devices where there are fewer
/// sequences, and of one at least.
std::vector<std::vector<Sequence>> deal(const std::vector<Sequence>& sequences, size_t n);

}  // namespace kvcal
