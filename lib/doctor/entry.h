// The parts of a diagnosis: the catalog entry of a log line or of a combination of facts, and where it was seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/rules.h"

namespace kvcal {

/// Where the meaning of an entry comes from: read in the server's source or a merged change; computed; reported by
/// users only; our inference.
enum class Confidence : uint8_t { Established, Computed, Reported, Inferred };

/// What may have gone wrong. causes.cpp has a title and the next step for each.
enum class Cause : uint8_t {
  None,
  RuntimeScalesOfHybrid,
  RuntimeScalesFrozen,
  RuntimeScalesIgnored,
  OptionUnknown,
  ScalesMissing,
  ScalesNotLoaded,
  ScalesRefused,
  ScalesStale,
  ScalesInvalid,
  PluginMissing,
  LatentAttention,
  FormatUnsupported,
  KeyOutliers,
  KernelDefect,
  NanLogits,
  NotTheCache,
  CacheTransfer,
  AnswerInReasoning,
};

std::string_view name_of(Confidence confidence);  // "established", "computed", "reported", "inferred"

/// One entry of the catalog. `cause` with `weight` (1 a hint .. 9 says so itself) is what it speaks for.
struct Entry {
  std::string_view id = "";  // numbers of the catalog of known failures: LG, L, F, C, B, E, RS, ...
  Severity severity = Severity::Note;
  Confidence confidence = Confidence::Established;
  std::string_view meaning = "";
  std::string_view not_proved = "";  // what must not be concluded from it
  std::string_view fix = "";         // "": nothing to do; what stands in {}: fix_text(), export_advice()
  std::string_view source = "";      // package, version, file, or issue numbers
  Cause cause = Cause::None;
  int weight = 0;
  std::string_view supersedes = "";  // ids, with spaces, of what says less of the same
};

/// The entry of a rule that validate has too: one meaning, one severity.
constexpr Entry entry_of(std::string_view rule, Confidence confidence, std::string_view not_proved,
                         std::string_view fix, std::string_view source, Cause cause = Cause::None, int weight = 0) {
  const Rule& r = rule_named(rule);
  return {r.id, r.severity, confidence, r.meaning, not_proved, fix, source, cause, weight};
}

/// The fix where scales are missing, or are another model's.
inline constexpr std::string_view kCalibrate =
    "kvcal calibrate {model} --prompts YOURS.jsonl -o kv-cache-scales.json, then {export}";

/// The fix where scales lie in files of another form than the server reads.
inline constexpr std::string_view kExport = "{export here}";

/// Of logs and of answers.
inline constexpr Entry kExclamationMarks = {
    "E15",
    Severity::Error,
    Confidence::Established,
    "one character repeated forever: where token 0 is '!' (byte-level BPE: Qwen, Llama 3, GLM), the logits are "
    "probably NaN",
    "that the KV cache is to blame: NVFP4 layouts, scales of weights, fp16 overflow and other faults look the same",
    "run the same prompt with {control}; VLLM_COMPUTE_NANS_IN_LOGITS=1 tells whether logits are NaN",
    "vllm issues 49011, 50283; transformers 33312",
    Cause::NanLogits,
    3};

/// Of logs and of commands.
inline constexpr Entry kHeadWidth = {"LG82b",
                                     Severity::Fatal,
                                     Confidence::Established,
                                     "the attention backend that was asked for does not take heads of this width, "
                                     "whatever the cache",
                                     "that another backend takes it",
                                     "another --attention-backend, or none of your own",
                                     "vllm 0.33.0 platforms/cuda.py, rocm.py, 0.10.2 to 0.33.0 "
                                     "v1/attention/backends/flashinfer.py; vllm issue 40677",
                                     Cause::NotTheCache,
                                     9,
                                     "LG82"};

inline constexpr Entry kNoHopperKernel = {
    "LG73",
    Severity::Fatal,
    Confidence::Reported,
    "FlashInfer has no kernel for Hopper that reads an FP8 cache with 16-bit queries: compiling fails",
    "that other versions and builds fail: reported for vLLM 0.11 to 0.14, with E4M3",
    "--attention-backend FLASH_ATTN",
    "vllm issues 27604, 29531, 31843",
    Cause::FormatUnsupported,
    8};

/// Where something was seen. `text` is one line, shortened, as found: untrusted.
struct Evidence {
  std::string file = "";  // "": no file, but what several of them say together
  size_t line = 0;        // from 1; 0: no line
  std::string text = "";
  size_t count = 1;    // times in this file
  size_t n_ranks = 0;  // ranks that printed it, where the lines say so
};

/// An entry that applies, with what it was seen in.
struct Sign {
  const Entry* entry = nullptr;
  std::string detail;  // what is particular here: "k_scale of 12 layers"; may be empty
  std::vector<Evidence> evidence;
  bool is_hint = false;  // it was reported of other versions, or is so where all is well, too: it counts a level less
  bool of_some_versions = false;  // the version is not known, and it would not hold with each

  Severity severity() const {
    const bool lower = is_hint && entry->severity != Severity::Note;
    return lower ? static_cast<Severity>(static_cast<int>(entry->severity) - 1) : entry->severity;
  }
  int weight() const { return is_hint ? std::min(entry->weight, kWeightOfHint) : entry->weight; }
  static constexpr int kWeightOfHint = 3;
};

/// A line is recognized by any of the needles that its pattern begins with, parts of lines that have no arguments, with
/// single spaces and a "|" between them; where that is not special enough, what stands behind " & " must be in the same
/// line, and what stands behind " ! " must not: "not found in params_dict & k_scale".
struct LogLine {
  std::string_view pattern;
  Entry entry;
  std::string_view cache = "";  // the type of the KV cache of which the line is proof

  /// Behind this mark, "& " or "! "; "" where it has none.
  constexpr std::string_view part(std::string_view mark) const {
    const std::string_view rest = pattern.substr(std::min(pattern.find(mark), pattern.size() - mark.size()));
    return rest.starts_with(mark) ? rest.substr(mark.size(), rest.find(" ! ", 1) - mark.size()) : "";
  }
};

std::vector<std::string_view> needles_of(const LogLine& line);

std::span<const LogLine> vllm_lines();
std::span<const LogLine> vllm_load_lines();  // what stops or goes wrong while scales are loaded
std::span<const LogLine> sglang_lines();
std::span<const LogLine> other_lines();

}  // namespace kvcal
