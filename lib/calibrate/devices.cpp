#include "calibrate/devices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kvcal {

Devices::Devices(std::unique_ptr<Ops> one) : isa_(one->isa()) { devices_.push_back({"", std::move(one)}); }

Devices::Devices(std::vector<Named> several) : devices_(std::move(several)) {
  for (const Named& device : devices_) {
    device.op->enter_thread();
    const std::string isa = device.op->isa();
    if (&device == &devices_.front()) isa_ = isa;
    if (isa != isa_)
      fail(devices_.front().name + " is of class " + isa_ + ", " + device.name + " of " + isa +
           ": expected GPUs of one class, on which the bytes of a run depend; name those alone");
  }
}

DeviceMemory Devices::memory() const {
  DeviceMemory least;
  for (const Named& device : devices_) {
    device.op->enter_thread();
    const DeviceMemory memory = device.op->device_memory();
    if (&device == &devices_.front() || memory.free_bytes < least.free_bytes) least = memory;
  }
  return least;
}

std::vector<std::string> Devices::notes() const {
  std::vector<std::string> all;
  for (const Named& device : devices_)
    for (const std::string& note : device.op->notes()) all.push_back(size() == 1 ? note : device.name + ": " + note);
  return all;
}

std::vector<std::vector<Sequence>> deal(const std::vector<Sequence>& sequences, size_t n) {
  std::vector<std::vector<Sequence>> dealt(std::clamp<size_t>(sequences.size(), 1, n));
  for (size_t i = 0; i < sequences.size(); ++i) dealt[i % dealt.size()].push_back(sequences[i]);
  return dealt;
}

}  // namespace kvcal
