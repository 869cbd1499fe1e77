// Combinations of facts that mean something together, as data: one table per group. A rule whose inputs are missing is
// "not evaluated", never passed.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "deployment/cache_choices.h"
#include "doctor/facts.h"

namespace kvcal {

/// What a rule cannot do without: inputs, and facts that must hold. Where a fact does not hold the rule has nothing to
/// say; where it is not known the rule is not evaluated, and what would settle it is said.
enum Needs : unsigned {
  kFlags = 1u << 0,        // a serve command, or the options that a log prints
  kLog = 1u << 1,          //
  kModel = 1u << 2,        // config.json, or a model's name that says enough
  kCheckpoint = 1u << 3,   // config.json
  kTensors = 1u << 4,      // a folder with weights
  kScales = 1u << 5,       // a scale file
  kOutput = 1u << 6,       // a sample of output
  kKnownServer = 1u << 7,  // which server
  kGpu = 1u << 8,          // which GPU
  kAdapter = 1u << 9,      // a LoRA adapter
  kVllm = 1u << 10,        // the server is this one
  kSglang = 1u << 11,      //
  kQuantized = 1u << 12,   // the cache holds quantized values
  kStaticFp8 = 1u << 13,   // E4M3 with one scale for all tokens
  kPlain = 1u << 14,       // the cache is not quantized
  kHybrid = 1u << 15,      // recurrent layers beside attention
  kLatent = 1u << 16,      // MLA
  kCalibrated = 1u << 17,  // scales other than 1.0 are known
  kAllFlags = 1u << 18,    // and none may stand in a file that was not given: for what goes by an option's absence
  kFp8 = 1u << 19,         // the cache holds FP8 values, whatever scales they have
  kMisread = 1u << 20,     // the backend multiplies rows of MLA that nothing was divided by
  // Of what is fatal, where it does not stop a server at its start:
  kAtRequest = 1u << 21,  // but at a request
  kServing = 1u << 22,    // the server runs, and answers are wrong
};

struct Found {
  bool holds = false;
  std::string detail = "";
  std::vector<Evidence> evidence = {};
  bool is_hint = false;  // Sign::is_hint
};

/// Whether a rule holds, with a detail or without; of neither: where a check of the folder has found what the id is of.
struct When {
  bool (*holds)(const Facts& facts) = nullptr;
  Found (*finds)(const Facts& facts) = nullptr;

  constexpr When() = default;
  template <class Rule>
  constexpr When(Rule rule) {
    if constexpr (std::is_same_v<std::invoke_result_t<Rule, const Facts&>, bool>)
      holds = rule;
    else
      finds = rule;
  }
};

struct CombinationRule {
  Entry entry;
  unsigned needs;
  When when{};
  /// Words for what is evidence where it holds: options of the command; {checkpoint}, {scales}, {adapter}, {LG2} of
  /// log lines; {backend} and {gpu}, which the detail says, too.
  std::string_view evidence = "";
  std::string_view backends = "";  // words, one of which the attention backend must be
  EngineVersions versions = {};    // of the server
};
inline bool always(const Facts&) { return true; }

std::span<const CombinationRule> flag_rules();
std::span<const CombinationRule> server_rules();  // backends and versions known to be bad
std::span<const CombinationRule> gpu_rules();     // what only some GPUs do
std::span<const CombinationRule> checkpoint_rules();
std::span<const CombinationRule> log_rules();
std::span<const CombinationRule> output_rules();
std::span<const CombinationRule> draft_rules();
std::span<const CombinationRule> scale_file_rules();
std::span<const CombinationRule> state_rules();  // recurrent state: its type, its checkpoints

/// All of them.
using RuleTables = std::array<std::span<const CombinationRule>, 9>;
RuleTables rule_tables();

/// Whether a rule has something to say, from what it needs: facts, backends and versions.
struct Applies {
  Trait all = Trait::Yes;  // No: a fact does not hold
  std::string open;        // where it is not known: "a serve command, config.json"
};
Applies applies(const CombinationRule& rule, const Facts& facts);

/// Whether it holds, of a rule that applies.
Found found_by_rule(const CombinationRule& rule, const Facts& facts);

/// Of a rule that says why the server stops: log or answer show that it did not.
bool is_refuted(const CombinationRule& rule, const Facts& facts);

/// For rules: holds, with the options as evidence.
Found found_in_flags(const Facts& facts, std::initializer_list<std::string_view> names, std::string detail = "");

/// Whether SGLang looks into the file of --quantization-param-path.
bool reads_parameter_path(const Facts& facts);

/// The tensor-parallel size of the command; 1 where it says none.
int64_t n_ranks(const Facts& facts);

/// "2 scales"
std::string count(size_t n, const std::string& what);
/// What checks that validate makes, too, have found in the folder: by themselves, and in the server where it is in the
/// table of servers.
std::vector<const Finding*> found_by(const Facts& f, std::string_view rule);
/// What the cache is served with: GPU, kind of attention, width of heads and backend, as far as they are known.
CachePlace place_of(const Facts& f);
/// Output that no sound model writes was given, or is in the log.
bool looks_broken(const Facts& facts);
/// Whether the checkpoint has scales other than 1.0.
bool has_own_scales(const Facts& facts);
/// The scale file of this model says that 1.0 does as well: what has 1.0 there is not to blame.
bool is_one_enough(const Facts& facts);

}  // namespace kvcal
