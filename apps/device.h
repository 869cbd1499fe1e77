// Which devices compute. The only place that knows which backends were built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/devices.h"
#include "ops/ops.h"

namespace kvcal {

/// "cpu"; "cuda" or "cuda:1"; "auto": the best that was built and is found. threads: 0 = all processors. Throws Error
/// for an unknown name, a backend that was not built, a missing device, and the name of several.
std::unique_ptr<Ops> open_device(const std::string& name, Precision precision, int threads);

/// The same, or several GPUs: "cuda:0,2", and "cuda:all" for all there are.
Devices open_devices(const std::string& name, Precision precision, int threads);

/// Of the name of several the first one's, else the name.
std::string first_device(const std::string& name);

/// For one of several processes that start together on a machine, number on_host of them: "auto" and "cuda" become its
/// own GPU where there are several, "cuda:1", in turns. Every other name stays, as does "auto" where no GPU can be
/// used.
std::string device_of_process(const std::string& name, int64_t on_host);

/// "bf16" or "f32"; throws Error for another name.
Precision precision_named(const std::string& name);

/// Throws Error unless open_device() could be given this number; for verbs that do long work before that.
void check_threads(int threads);

struct Backend {
  std::string name;
  bool built = false, found = false;
  std::string note;  // libraries and processor, or why it is missing
};

/// All backends the program could have. Looks for devices, opens none.
std::vector<Backend> backends();

}  // namespace kvcal
