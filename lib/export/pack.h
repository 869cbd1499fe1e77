// A pack: what a publisher gives of a calibration without the weights, for others to apply to the same checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "artifact/pack_names.h"
#include "servers/model_identity.h"

namespace kvcal {

/// Its files beside those of artifact/pack_names.h and what the publisher adds. The sums cover all, so that a signature
/// of them covers all.
constexpr const char* kPackEvaluation = "evaluation.json";
constexpr const char* kPackPage = "report.html";
constexpr const char* kPackSums = "SHA256SUMS";

struct PackRequest {
  std::filesystem::path scales, model, out;
  std::filesystem::path recipe;                // evaluation whose recipe is applied, too; "" for none
  std::vector<std::filesystem::path> include;  // statistics, ...: kept under their own names
  std::string tool_version;
  bool force = false;  // an earlier pack gives way
  /// The page of the texts of a scale file and an evaluation; Error where that is of other scales.
  std::function<std::string(const std::string& scales, const std::string& evaluation)> page;
};

/// What was packed, and what a pack may have besides.
struct WrittenPack {
  std::string apply_options;  // that 'kvcal apply' needs: "--to modelopt", "--skip-layers keep16", or ""
  bool has_evaluation = false, has_page = false, has_statistics = false;
  std::string
      passed_over;  // why the evaluation beside the scale file does not go with it; "": it does, or is not there
};

struct Pack {
  std::filesystem::path folder;
  std::string architecture, weights_fingerprint, config_sha256;
  std::string repository, revision;  // on the Hub; "" where the model's folder does not tell
  bool has_recipe = false, has_evaluation = false, has_page = false;  // a recipe is in an evaluation

  std::filesystem::path scales() const { return folder / kPackScales; }
  std::filesystem::path evaluation() const { return folder / kPackEvaluation; }
  std::filesystem::path page() const { return folder / kPackPage; }
  std::filesystem::path recipe() const { return has_recipe ? folder / kPackEvaluation : std::filesystem::path(); }
};

/// The evaluation is that of the recipe, else one that is included as evaluation.json, else the evaluation.json beside
/// the scale file if it is of these scales. Its page is made, unless a report.html is included.
///
/// Throws Error, and writes nothing, for scales of another model, for a recipe or an included evaluation of other ones,
/// for two files of one name, and for a folder there that is no pack, holds the model, or has a file that is not of the
/// pack.
WrittenPack write_pack(const PackRequest& request);

bool is_pack(const std::filesystem::path& folder);

/// Throws Error for a manifest that cannot be read, one of its files that is not in the sums, and a file of the sums
/// that is missing, changed, no regular file or a link out of the folder. What else is there (a signature, README.md)
/// is not looked at.
Pack read_pack(const std::filesystem::path& folder);

/// Throws Error, with both names, when the model is another one than the pack's.
void check_is_for(const Pack& pack, const ModelIdentity& model);

}  // namespace kvcal
