#include "export/pack.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "artifact/delivery.h"
#include "artifact/json_text.h"
#include "artifact/saved_evaluation.h"
#include "base/atomic_folder.h"
#include "base/file_kind.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "checkpoint/config_file.h"
#include "checkpoint/mapped_file.h"
#include "export/folder_files.h"
#include "export/layer_scales.h"
#include "export/recipe.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "kvcal-pack";
constexpr JsonLimits kLimits{.max_bytes = size_t{1} << 20, .max_depth = 8};

/// Calls f(std::span<const std::byte>) with one part after the other.
template <class F>
void for_each_part(const MappedFile& file, F&& f) {
  std::vector<std::byte> part(size_t{1} << 20);
  for (uint64_t at = 0; at < file.size(); at += part.size()) {
    part.resize(std::min<uint64_t>(part.size(), file.size() - at));
    file.read(at, part);
    f(std::span<const std::byte>(part));
  }
}

std::string sha256_of_file(const fs::path& path) {
  Sha256 hash;
  for_each_part(MappedFile(path, MappedFile::Access::ReadOnly),
                [&](std::span<const std::byte> part) { hash.update(part); });
  return hash.hex();
}

void copy_into_pack(const fs::path& from, const fs::path& to) {
  const MappedFile source(from, MappedFile::Access::ReadOnly);
  AtomicFile file(to, Existing::Refuse);
  for_each_part(source, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

/// Where the folder is a snapshot in the Hub's cache.
void take_revision(const fs::path& folder, Pack& pack) {
  if (folder.parent_path().filename() != "snapshots") return;
  pack.repository = hub_id(folder.parent_path().parent_path());
  if (!pack.repository.empty()) pack.revision = folder.filename().string();
}

std::string manifest_text(const Pack& pack, const std::string& tool_version) {
  Json model = {{"architecture", pack.architecture},
                {"weights_fingerprint", pack.weights_fingerprint},
                {"config_sha256", pack.config_sha256}};
  if (!pack.revision.empty()) {
    model["repository"] = pack.repository;
    model["revision"] = pack.revision;
  }
  Json json = {{"format", kFormat}, {"version", "1.0"}, {"tool_version", tool_version}, {"model", model}};
  json["scales"] = kPackScales;
  if (pack.has_recipe) json["recipe"] = kPackEvaluation;
  return json_text(json);
}

/// Where each file beside the scales comes from, by its name in the pack.
std::map<std::string, fs::path> sources_of(const PackRequest& request) {
  std::map<std::string, fs::path> files;
  if (!request.recipe.empty()) files[kPackEvaluation] = request.recipe;
  for (const fs::path& path : request.include) {
    const std::string name = path.filename().string();
    if (name == kPackManifest || name == kPackSums || name == kPackScales || name.find('\n') != name.npos ||
        !files.emplace(name, path).second)
      fail("--include " + quoted(path.string()) + ": the pack has a file " + quoted(name) + " already; rename it");
  }
  return files;
}

/// Texts of a scale file, of its evaluation and of their page; "" where there is none.
struct Packed {
  std::string scales, evaluation, page;
};

/// Takes the evaluation out of `files`, or from beside the scale file, which may have one of other scales.
Packed packed_with(std::string scales, const PackRequest& request, std::map<std::string, fs::path>& files,
                   WrittenPack& written) {
  std::error_code ignored;
  Packed packed{std::move(scales), "", ""};
  const auto take = [&](const fs::path& path) {
    packed.evaluation = read_evaluation_text(path);
    packed.page = request.page(packed.scales, packed.evaluation);
  };
  if (const auto named = files.find(kPackEvaluation); named != files.end()) {
    take(named->second);
    files.erase(named);
  } else if (const fs::path beside = request.scales.parent_path() / kPackEvaluation;
             fs::is_regular_file(beside, ignored)) {
    try {
      take(beside);
    } catch (const Error& e) {
      written.passed_over = e.what();
      packed.evaluation.clear();
    }
  }
  return packed;
}

std::map<std::string, std::string> read_sums(const fs::path& folder) {
  std::map<std::string, std::string> sums;
  std::stringstream lines(read_file(folder / kPackSums, size_t{1} << 20));
  for (std::string line; std::getline(lines, line);) {
    const bool is_sum =
        line.size() > 66 && line.find_first_not_of("0123456789abcdef") == 64 && line.substr(64, 2) == "  ";
    const std::string name = is_sum ? line.substr(66) : "";
    if (!is_sum || name.find('/') != name.npos || name == "." || name == "..")
      fail(std::string(kPackSums) + " has the line " + quoted(line) + ", expected a digest and the name of a file");
    sums[name] = line.substr(0, 64);
  }
  return sums;
}

std::set<std::string> made_by(const fs::path& earlier) {
  std::set<std::string> names;
  for (const auto& [name, digest] : while_doing(quoted(earlier.string()), [&] { return read_sums(earlier); }))
    names.insert(name);
  return names;
}

/// The names of the files.
std::map<std::string, std::string> checked_sums(const fs::path& folder, bool has_recipe) {
  std::map<std::string, std::string> sums = read_sums(folder);
  for (const std::string name : {kPackManifest, kPackScales, kPackEvaluation})
    if (!sums.contains(name) && (name != kPackEvaluation || has_recipe))
      fail(std::string(kPackSums) + " does not name " + quoted(name));
  for (const auto& [name, digest] : sums) {
    if (const fs::path target = target_outside(folder / name, folder); !target.empty())
      fail(quoted(name) + " is a link out of the pack, to " + quoted(target.string()));
    if (sha256_of_file(folder / name) != digest)
      fail(quoted(name) + " is not the file that was packed: its digest is another one than in " + kPackSums);
  }
  return sums;
}

std::string options_of_apply(const Artifact& artifact, const std::optional<AppliedRecipe>& recipe) {
  if (!recipe) return keep16_layers(artifact).empty() ? "" : "--skip-layers keep16";
  const bool mixes = std::ranges::any_of(
      recipe->formats, [&](const auto& of_layer) { return of_layer.second != artifact.quantization.dtype; });
  return mixes ? "--to modelopt" : "";
}

std::string shown(const std::string& hash) { return hash.substr(0, 12); }

/// "org/name at 0123456789ab, Qwen3ForCausalLM"
std::string name_of(const Pack& pack) {
  return (pack.revision.empty() ? "" : pack.repository + " at " + shown(pack.revision) + ", ") + pack.architecture;
}

}  // namespace

WrittenPack write_pack(const PackRequest& request) {
  std::error_code ignored;
  if (fs::equivalent(request.scales.parent_path(), request.out, ignored))
    fail(quoted(request.scales.string()) + " lies in " + quoted(request.out.string()) +
         ", which the pack would replace; write it to another folder");
  const std::string text = read_artifact_text(request.scales);
  const Artifact artifact = parse_artifact(text, request.scales);
  const ModelIdentity model = identify_model(request.model);
  check_fits(artifact, model);
  std::optional<AppliedRecipe> recipe;
  if (!request.recipe.empty())
    recipe = recipe_for(request.recipe, artifact, sha256_hex(text), model, find_exporter("modelopt"));
  const bool replaces = request.force && is_pack(request.out);
  check_apart(request.model, request.out);
  if (request.force && !replaces && fs::exists(request.out, ignored))
    fail(quoted(request.out.string()) + " is no pack: --force does not delete other folders");
  WrittenPack written;
  std::map<std::string, fs::path> files = sources_of(request);
  const Packed packed = packed_with(text, request, files, written);
  Pack pack{{}, model.spec.architecture, model.weights_fingerprint, model.config_sha256, "",
            "", !request.recipe.empty()};
  take_revision(model.folder, pack);
  AtomicFolder folder(request.out, replaces ? Existing::Replace : Existing::Refuse);
  // Scales as they were checked, and once: they may come from a pipe.
  write_file_atomically(folder.path() / kPackScales, text, Existing::Refuse);
  if (!packed.evaluation.empty())
    write_file_atomically(folder.path() / kPackEvaluation, packed.evaluation, Existing::Refuse);
  if (!packed.page.empty() && !files.contains(kPackPage))
    write_file_atomically(folder.path() / kPackPage, packed.page, Existing::Refuse);
  for (const auto& [name, source] : files) {
    copy_into_pack(source, folder.path() / name);
    written.has_statistics |= kind_of_file(folder.path() / name) == FileKind::Statistics;
  }
  write_file_atomically(folder.path() / kPackManifest, manifest_text(pack, request.tool_version), Existing::Refuse);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  std::string sums;
  for (const std::string& name : names) sums += sha256_of_file(folder.path() / name) + "  " + name + "\n";
  write_file_atomically(folder.path() / kPackSums, sums, Existing::Refuse);
  const Pack read_back = read_pack(folder.path());
  written.has_evaluation = read_back.has_evaluation;
  written.has_page = read_back.has_page;
  if (replaces) check_nothing_lost(request.out, made_by(request.out), folder.path());
  folder.commit();
  written.apply_options = options_of_apply(artifact, recipe);
  return written;
}

bool is_pack(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kPackManifest, ignored);
}

Pack read_pack(const fs::path& folder) {
  if (!is_pack(folder)) fail(quoted(folder.string()) + ": is no pack: it has no " + kPackManifest);
  return while_doing(quoted(folder.string()), [&] {
    const Json json = read_json_file(folder / kPackManifest, kLimits);
    if (!json.is_object() || get_string_or(json, "format", "") != kFormat ||
        get_string_or(json, "version", "") != "1.0")
      fail(std::string(kPackManifest) + " is no manifest of a pack, version 1.0");
    const Json* model = find_member(json, "model");
    if (!model || !model->is_object()) fail(std::string(kPackManifest) + " names no model");
    Pack pack{folder,
              get_string(*model, "architecture"),
              get_string(*model, "weights_fingerprint"),
              get_string(*model, "config_sha256"),
              get_string_or(*model, "repository", ""),
              get_string_or(*model, "revision", ""),
              find_member(json, "recipe") != nullptr};
    const std::map<std::string, std::string> sums = checked_sums(folder, pack.has_recipe);
    pack.has_evaluation = sums.contains(kPackEvaluation);
    pack.has_page = sums.contains(kPackPage);
    return pack;
  });
}

void check_is_for(const Pack& pack, const ModelIdentity& model) {
  const std::string name = quoted(pack.folder.string()), folder = quoted(model.folder.string());
  if (pack.weights_fingerprint != model.weights_fingerprint)
    fail(name + " is for " + name_of(pack) + ", fingerprint " + shown(pack.weights_fingerprint) + "; the weights of " +
         folder + " have " + shown(model.weights_fingerprint) +
         (model.was(pack.weights_fingerprint) ? ", folded since" : "") +
         ": apply it to the checkpoint that was measured");
  if (pack.config_sha256 != model.config_sha256)
    fail(name + " is for " + name_of(pack) + " with another config.json (" + shown(pack.config_sha256) +
         ") than that of " + folder + " (" + shown(model.config_sha256) +
         "): RoPE, norm and scaling settings change what is cached");
}

}  // namespace kvcal
