// evaluation.json from anybody: the reader takes any bytes; what contradicts itself is said in lines that can be shown,
// and two readings of one file say the same.
#include "artifact/saved_evaluation.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  SavedEvaluation evaluation;
  if (!fuzzing::accepts([&] { evaluation = evaluation_from_json(parse_evaluation(text)); })) return 0;
  const size_t n_faults = faults_of(evaluation).size();
  const bool sound = fuzzing::accepts([&] { parse_evaluation_file(text, "evaluation.json"); });
  fuzzing::require(sound == (n_faults == 0), "a file is read when it does not contradict itself");
  fuzzing::require(!evaluation.variants.empty(), "there is a variant");
  if (!sound || !evaluation.recipe) return 0;
  for (const auto& [layer, format] : evaluation.recipe->layers)
    fuzzing::require(layer >= 0 && layer < evaluation.model.n_layers && is_recipe_format(format), "a recipe is usable");
  return 0;
}
