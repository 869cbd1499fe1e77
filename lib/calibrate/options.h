// What a calibration is given: where it reads, what it computes on, and everything that can be chosen.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "calibrate/devices.h"
#include "calibrate/fed_prompts.h"
#include "ops/ops.h"
#include "prefill/sequence_plan.h"
#include "solve/options.h"

namespace kvcal {

struct Artifact;
class KeptLayers;

/// Opens the one device that computes, for what runs on one only. Called as OpenDevices are.
using OpenDevice = std::function<std::unique_ptr<Ops>()>;

struct CalibrationInputs {
  std::filesystem::path model;  // checkpoint folder
  PromptSource prompts;
  OpenDevices open_devices;  // of CalibrationOptions::precision
};

/// How far a calibration goes.
enum class Extent : uint8_t { Comparison, Plan, Statistics, Scales };

struct CalibrationOptions {
  Extent extent = Extent::Scales;
  PromptOptions prompts;      // max_length 0: what the model allows, which is also the most
  SequenceOptions sequences;  // max_length is that of the prompts
  Precision precision = Precision::BF16;
  int threads = 0;                     // of the statistics; 0 = all processors
  int64_t chunk_tokens = 0;            // 0 = by the plan
  uint64_t memory = 0;                 // bytes; 0 = what is available
  double until_stable = -1;            // percent: draws prompts until new ones move no absmax by more; below 0 = off
  bool emulate_activations = false;    // round the inputs of quantized weights as servers do
  bool mtp = false;                    // the MTP layer's cache too
  SolveOptions solve;                  // attention is sampled for its format and policy
  std::filesystem::path resume;        // folder that keeps the state after each layer; empty = none
  std::string tool_version = "kvcal";  // and its version, "kvcal 0.1.0": for the record
  std::string commit;                  // of the program: a run is resumed by the same one only
  KeptLayers* kept = nullptr;          // of this process's runs with other weights; may be null; not with until_stable
  const Artifact* earlier = nullptr;   // a result that stands where nothing that decides it has changed; may be null
};

}  // namespace kvcal
