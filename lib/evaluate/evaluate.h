// What a rounded cache does to a model's predictions: the same forward pass with the cache as it is and as servers keep
// it, side by side, one reading of the weights for all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/listener.h"
#include "calibrate/options.h"
#include "evaluate/answers.h"
#include "evaluate/figures.h"
#include "evaluate/recipe.h"
#include "evaluate/resume.h"
#include "evaluate/row_errors.h"
#include "evaluate/variant.h"
#include "prefill/memory_plan.h"
#include "stats/model_info.h"

namespace kvcal {

struct EvaluationInputs {
  std::filesystem::path model;  // checkpoint folder
  PromptSource prompts;
  OpenDevice open_device;
};

struct EvaluationOptions {
  PromptOptions prompts;  // max_length 0: what the model allows
  Precision precision = Precision::BF16;
  int threads = 0;           // of the comparison; 0 = all processors
  int64_t chunk_tokens = 0;  // 0 = by the plan
  uint64_t memory = 0;       // bytes; 0 = what is available
  int64_t max_model_len = 0;
  int64_t sample = 0;               // above 0: prompts that single layers are measured on
  int64_t keep_recent = 0;          // above 0: rows are rounded once their block of so many positions is complete
  std::string attention;            // AttentionPath's that variants were made for; empty: none
  int64_t max_new_tokens = 0;       // of answers; 0: none are made
  std::optional<double> decide_kl;  // prompts run in parts, until the mean KL of VariantSet::whole is shown to be on
                                    // one side of this; then nothing but `compared` is measured
  bool expects = false;             // Error when no prompt says what to expect
  bool limits_predictions = false;  // Error when states are stored so that no prediction can change
  std::filesystem::path resume;     // folder that keeps the state of a run; empty = none
  std::string commit;               // of the program: a run is resumed by the same one only
};

/// Formats of all layers to choose from for each; bf16, the cache as it is, always is one.
struct RecipeRequest {
  RecipeLimits limits;
  std::vector<Variant> formats;
};

/// What is compared with the reference. `layers` are of one cache each.
struct VariantSet {
  std::vector<Variant> compared, layers;
  std::optional<RecipeRequest> recipe;
  size_t whole = 0;  // of `compared`: what `layers` are single layers of
};

/// Makes the variants for an opened model: scales come from files, formats from options.
using MakeVariants = std::function<VariantSet(const ModelSpec&)>;

struct EvaluatedVariant {
  Variant variant;
  std::vector<ComparedToken> tokens;  // by prompt and position
  RowErrors errors{};                 // of the rows that it stores; of single layers none
};

/// A recipe in words: the format of each layer that owns a cache.
struct EvaluatedRecipe {
  RecipeLimits limits;  // that were asked for
  Recipe found;
  std::vector<std::pair<int, std::string>> layers;  // by index
};

/// Single layers were measured on a part of the prompts, and all of them together on the same part.
struct LayerSample {
  int64_t n_prompts = 0;
  EvaluatedVariant whole;
};

/// How often it was looked whether a limit is decided.
struct Looks {
  double max_kl = 0;
  int64_t n_made = 0, n_planned = 0;
  int64_t n_prompts = 0;  // of which Evaluation::prompts were run
};

struct Evaluation {
  ModelInfo model;                    // with its digests
  std::vector<PromptTokens> prompts;  // that were run, sorted by id
  std::string prompts_sha256;
  std::string isa;  // Ops::isa()
  Precision precision = Precision::BF16;
  MemoryPlan memory;
  std::vector<int> cache_layers;  // the layer that owns each cache, by cache
  int64_t n_tokens_twice = 0;     // that the reference was run on twice, with equal predictions
  std::vector<EvaluatedVariant> compared, layers;
  std::optional<Looks> looks;         // with EvaluationOptions::decide_kl
  size_t whole = 0;                   // VariantSet's
  std::optional<LayerSample> sample;  // of `layers`; none: all prompts
  std::optional<EvaluatedRecipe> recipe;
  std::vector<Answers> answers;                // of the reference, then as `compared`; empty without max_new_tokens
  std::unique_ptr<EvaluationResume> resume{};  // with EvaluationOptions::resume: to remove once the results are safe
};

/// Runs the reference, a part of it once more (whose predictions must be equal: Error otherwise), and the variants,
/// each from its first rounded layer on. Equal inputs give equal results whatever the threads and batches. Throws Error
/// for what cannot be read or does not fit.
Evaluation evaluate(const EvaluationInputs& inputs, const EvaluationOptions& options, const MakeVariants& make_variants,
                    CalibrationListener& listener);

}  // namespace kvcal
