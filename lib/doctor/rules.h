// Combinations of facts that mean something together, as data: one table per group. A rule whose inputs are missing is
// "not evaluated", never passed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace kvcal {

/// Inputs that a rule cannot do without.
enum Needs : unsigned {
  kFlags = 1,          // a serve command, or the options that a log prints
  kLog = 2,            //
  kModel = 4,          // config.json, or a model's name that says enough
  kCheckpoint = 8,     // config.json
  kTensors = 16,       // a folder with weights
  kScales = 32,        // a scale file
  kOutput = 64,        // a sample of output
  kKnownServer = 128,  // which server
  kGpu = 256,          // which GPU
  kAdapter = 512       // a LoRA adapter
};

struct Found {
  bool holds = false;
  std::string detail = "";
  std::vector<Evidence> evidence = {};
};

struct CombinationRule {
  Entry entry;
  unsigned needs;
  Found (*when)(const Facts& facts);
};

std::span<const CombinationRule> flag_rules();
std::span<const CombinationRule> server_rules();  // backends and versions known to be bad
std::span<const CombinationRule> gpu_rules();     // what only some GPUs do
std::span<const CombinationRule> checkpoint_rules();
std::span<const CombinationRule> log_rules();
std::span<const CombinationRule> output_rules();

/// Which of a rule's inputs are missing: "a serve command, config.json"; "" when none is.
std::string missing_inputs(unsigned needs, const Facts& facts);

/// For rules: holds, with the options as evidence.
Found found_in_flags(const Facts& facts, std::initializer_list<std::string_view> names, std::string detail = "");

/// The tensor-parallel size of the command; 1 where it says none.
int64_t n_ranks(const Facts& facts);

/// The attention backend, in the option's or the log's spelling; "" when neither says.
std::string backend_of(const Facts& facts);
/// For rules: holds, with backend and cache type as evidence.
Found found_with_backend(const Facts& facts);

}  // namespace kvcal
