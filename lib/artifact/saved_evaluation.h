// evaluation.json as it is read back: what kvcal evaluate found, for those who report, check, plan or export by it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "stats/model_info.h"

namespace kvcal {

/// The token after which something is so; null where nothing is.
struct SavedPlace {
  std::string prompt;  // id
  int64_t position = 0;
};

/// KL(reference, variant), in nats.
struct SavedKl {
  double mean = 0, median = 0, p99 = 0, worst = 0;
  SavedPlace worst_at;
};

/// Of some tokens. `kl` and `top1` are there where logits after some of them are finite, nlls where another follows.
struct SavedFigures {
  int64_t n_tokens = 0, n_not_finite = 0;
  std::optional<SavedKl> kl;
  std::optional<double> top1;
  std::optional<double> nll, nll_reference;  // nats per token
};

struct SavedAnswerCounts {
  int64_t n = 0, n_equal = 0, n_empty = 0, n_endless = 0, n_expected = 0, n_correct = 0, n_loops = 0;
  double agreement = 0;
};

/// Relative RMS errors of the rows of one layer's cache; none: that site is as it is.
struct SavedRowErrors {
  int64_t index = 0;                         // of the layer
  std::optional<double> key, value, latent;  // infinite: a number that comes back is not finite
};

struct SavedVariant {
  std::string name, format;
  SavedFigures all;
  std::map<std::string, SavedFigures> by_tag;
  std::vector<std::pair<int64_t, SavedFigures>> by_position;  // the first position of each part
  std::optional<SavedAnswerCounts> answers;
  std::vector<SavedRowErrors> errors;  // ascending; empty: of a file before 1.2, or nothing is stored otherwise
};

struct SavedAnswer {
  std::string text;
  int64_t n_tokens = 0;
  bool ended = false;
  std::optional<int64_t> loop_period;  // it ends in repetitions of so many tokens
  std::optional<bool> correct;
  int64_t first_divergence = 0;  // token where it leaves the reference's
};

/// The reference's answer to a prompt, and those of variants that are other ones, by the variant's name.
struct SavedAnswers {
  std::string prompt;
  SavedAnswer reference;
  std::vector<std::pair<std::string, SavedAnswer>> others;
};

/// A prompt's part in what variants but the reference differ by.
struct SavedPrompt {
  struct Figures {
    std::optional<double> kl;  // mean; none: no logits were finite
    double top1 = 0;
    int64_t n_not_finite = 0;
  };
  std::string prompt;  // id
  int64_t n_tokens = 0;
  std::vector<std::pair<std::string, Figures>> variants;
};

/// A layer rounded alone.
struct SavedLayer {
  int64_t index = 0;
  std::optional<double> kl;  // mean; none: no logits were finite
  double top1 = 0;
};

/// A format for each layer that owns a cache.
struct SavedRecipe {
  double max_kl = 0, kl = 0, sum_kl = 0;
  int64_t bytes_per_token = 0, n_measured = 0;
  std::vector<std::pair<int64_t, std::string>> layers;  // by index; "bf16": the cache as it is
  std::optional<double> min_agreement;
  std::vector<std::string> formats;  // that it could choose; empty: of a file before 1.3
};

/// With its interval of 95 %, where prompts are enough for one.
struct SavedEstimate {
  double value = 0;
  std::optional<std::pair<double, double>> interval;
};

/// What the prompts show of others like them.
struct SavedConclusion {
  struct Variant {
    std::optional<SavedEstimate> kl;  // mean; none: some logits are not finite
    SavedEstimate top1;
    std::optional<SavedEstimate> correct;
    std::optional<SavedEstimate> kl_slope;  // by position, per 1,000 tokens; of variants that round recurrent states
  };
  /// By how much the mean KL of a variant is above another's at the same tokens.
  struct Pair {
    std::string variant, against;
    SavedEstimate kl;
  };
  int64_t n_groups = 0, n_tokens = 0;  // prompts that differ, tokens without repeated ones
  std::vector<std::pair<std::string, Variant>> variants;
  std::vector<std::pair<std::string, SavedEstimate>> times_floor;  // by variant: of the floor's KL
  std::vector<Pair> pairs;

  const Variant* of(std::string_view variant) const;  // null: nothing is said of it
  const SavedEstimate* times_of(std::string_view variant) const;
};

struct SavedEvaluation {
  std::string tool_version, precision, isa, prompts_sha256;
  std::string attention;  // "vllm@0.33.0:TRITON_ATTN": whose variants have; empty: none said
  int64_t n_prompts = 0, n_tokens = 0;
  ModelInfo model;
  std::optional<double> until_decided;                     // the mean KL that was to be decided
  int64_t keep_recent = 0, state_chunk = 1;                // as evaluate's options
  bool query = false;                                      // the same
  int64_t max_new_tokens = 0;                              // 0: no answers, or of a file before 1.3
  std::vector<std::pair<std::string, std::string>> files;  // name ("file", "file_2", "statistics") and SHA-256
  std::vector<SavedVariant> variants;                      // the reference first
  std::vector<SavedPrompt> by_prompt;                      // empty: of a file before 1.1
  std::optional<SavedConclusion> conclusion;               // none: of a file before 1.1
  std::vector<SavedLayer> layers;                          // ascending; empty: --per-layer was not given
  std::optional<int64_t> n_sampled_prompts;                // that layers were measured on; none: all
  std::optional<SavedRecipe> recipe;
  std::vector<SavedAnswers> answers;

  /// SHA-256 of a file that it was made with; "" where there is none of that name.
  std::string sha256_of(std::string_view name) const;

  /// The name of the variant with the scales of a file of this SHA-256; "" where there is none.
  std::string variant_of(std::string_view sha256) const;
};

/// What a part of the file contradicts, so that it cannot have been written so.
struct EvaluationFault {
  enum class About : uint8_t { Variants, Figures, Counts, Layers, Recipe };
  About about = About::Variants;
  std::string path;  // "variants[1].kl"
  std::string what, expected, actual;
};

/// Whether this is such a file, sound or not.
bool is_evaluation(const Json& json);

/// The text of such a file parsed: at most 64 MiB, 32 levels. Throws Error.
Json parse_evaluation(std::string_view text);

/// The members of a document that satisfies the schema. Throws Error, with the path of the member, for one that does
/// not. Its figures may contradict each other.
SavedEvaluation evaluation_from_json(const Json& json);

/// All contradictions, in the order of the file.
std::vector<EvaluationFault> faults_of(const SavedEvaluation& evaluation);

/// Reads a file that must not contradict itself. Messages begin with its path.
SavedEvaluation parse_evaluation_file(std::string_view text, const std::filesystem::path& path);
std::string read_evaluation_text(const std::filesystem::path& path);
SavedEvaluation read_evaluation(const std::filesystem::path& path);

/// Members whose texts may be long: what models answer. No pattern of the schema is about them.
inline constexpr std::array kEvaluationFreeTexts = {std::string_view("text")};

/// Formats that a layer of a recipe may have.
bool is_recipe_format(std::string_view name);

}  // namespace kvcal
