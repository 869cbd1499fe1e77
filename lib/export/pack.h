// A pack: what a publisher gives of a calibration without the weights, for others to apply to the same checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "servers/model_identity.h"

namespace kvcal {

/// Its files beside those that the publisher adds. The sums cover all, so that a signature of them covers all.
constexpr const char* kPackManifest = "kvcal-pack.json";
constexpr const char* kPackScales = "kv-cache-scales.json";
constexpr const char* kPackEvaluation = "evaluation.json";
constexpr const char* kPackSums = "SHA256SUMS";

struct PackRequest {
  std::filesystem::path scales, model, out;
  std::filesystem::path recipe;                // evaluation whose recipe is applied, too; "" for none
  std::vector<std::filesystem::path> include;  // statistics, pages, ...: kept under their own names
  std::string tool_version;
  bool force = false;  // an earlier pack gives way
};

struct Pack {
  std::filesystem::path folder;
  std::string architecture, weights_fingerprint, config_sha256;
  std::string repository, revision;  // on the Hub; "" where the model's folder does not tell
  bool has_recipe = false;

  std::filesystem::path scales() const { return folder / kPackScales; }
  std::filesystem::path recipe() const { return has_recipe ? folder / kPackEvaluation : std::filesystem::path(); }
};

/// Throws Error, and writes nothing, for scales or a recipe of another model, for two files of one name, and for a
/// folder there that is no pack, holds the model, or has a file that is not of the pack. Returns the options that
/// 'kvcal apply' needs: "--to modelopt", "--skip-layers keep16", or "".
std::string write_pack(const PackRequest& request);

bool is_pack(const std::filesystem::path& folder);

/// Throws Error for a manifest that cannot be read, one of its files that is not in the sums, and a file of the sums
/// that is missing, changed, no regular file or a link out of the folder. What else is there (a signature, README.md)
/// is not looked at.
Pack read_pack(const std::filesystem::path& folder);

/// Throws Error, with both names, when the model is another one than the pack's.
void check_is_for(const Pack& pack, const ModelIdentity& model);

}  // namespace kvcal
