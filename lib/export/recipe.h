// The recipe of an evaluation: which layers have which format because that was measured, not predicted.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "artifact/saved_evaluation.h"
#include "export/exporter.h"
#include "servers/model_identity.h"

namespace kvcal {

struct AppliedRecipe {
  SavedRecipe recipe;
  std::vector<int> kept;               // layers whose cache stays in bf16, ascending
  std::map<int, std::string> formats;  // of the others
  std::string sha256;                  // of the evaluation
};

/// Reads an evaluation and takes its recipe for these scales. Throws Error, each with a way out, for one without a
/// recipe, of another model, found with other scales than those of this digest, with a format that is neither bf16 nor
/// the scale file's nor one that the target mixes, or that leaves nothing in it.
AppliedRecipe recipe_for(const std::filesystem::path& evaluation, const Artifact& artifact,
                         const std::string& scales_sha256, const ModelIdentity& model, const Exporter& exporter);

/// What to know about it: what it was measured to do, and which assessments it overrules.
std::vector<std::string> notes_on(const AppliedRecipe& applied, const Artifact& artifact);

}  // namespace kvcal
