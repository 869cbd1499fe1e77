#include "export/export.h"

#include <algorithm>
#include <iterator>

#include "artifact/delivery.h"
#include "base/sha256.h"
#include "checkpoint/config_file.h"
#include "export/carrier.h"
#include "export/layer_scales.h"
#include "export/recipe.h"

namespace kvcal {
namespace {

void check_own_options(const ExportRequest& request, const Exporter& exporter) {
  const auto to = [](std::string_view target) { return "'--to " + std::string(target) + "'"; };
  for (const Exporter& other : exporters())
    if (other.own.used && other.own.used(request) && other.name != exporter.name)
      fail(std::string(other.own.flag) + " is for " + to(other.name) + ", not for " + to(exporter.name));
  if (!exporter.own.needed.empty() && !exporter.own.used(request))
    fail(to(exporter.name) + " needs " + std::string(exporter.own.needed));
}

void check_recipe_options(const ExportRequest& request) {
  const ExportOptions& o = request.options;
  if (!request.recipe.empty() && (o.skip_keep16 || o.allow_keep16 || !o.skip_layers.empty()))
    fail("--recipe says which layers are kept in 16 bits: it cannot be combined with --skip-layers or --allow-keep16");
  if (!request.recipe.empty() && o.nvfp4)
    fail("--recipe says which layers are in NVFP4: it cannot be combined with --nvfp4");
}

void check_request(const ExportRequest& request, const Exporter& exporter) {
  const int64_t ranks = request.options.tensor_parallel;
  if (ranks < 1 || ranks > 1024) fail("--tp is " + std::to_string(ranks) + ", expected 1 to 1024");
  check_own_options(request, exporter);
  check_recipe_options(request);
  if (!exporter.writes_folder && (request.write.in_place || request.write.copy))
    fail("'--to " + request.target + "' writes one file: --in-place and --copy apply to folders only");
  const auto idle = [&](bool given, const char* option, const char* why) {
    if (given) fail(std::string(option) + " has no effect with '--to " + request.target + "', " + why);
  };
  idle(!exporter.writes_folder && request.options.replace_scales, "--replace-scales", "which writes no checkpoint");
  idle(!exporter.is_assessed && request.options.allow_keep16, "--allow-keep16", "which stores another format");
  idle(!exporter.is_served && request.options.allow_keep16, "--allow-keep16", "which writes the scales of all layers");
  if (request.write.in_place && (request.write.copy || !request.out.empty()))
    fail("--in-place modifies the model's folder: it cannot be combined with --out or --copy");
  if (request.out.empty() && !request.write.in_place && !request.plan_only)
    fail("--out is required; see 'kvcal export --help'");
}

void check_granularity(const Artifact& artifact, const std::string& wanted) {
  if (wanted.empty() || granularity_from_name(wanted) == artifact.quantization.granularity) return;
  fail("the scale file has granularity " + std::string(name_of(artifact.quantization.granularity)) +
       ", and so do its assessments; solve again: 'kvcal solve STATS --granularity " + wanted + "'");
}

/// What becomes of the MTP layer's cache in a server that drafts tokens with it; "" for files of no server.
std::string note_on_mtp(const ExportInput& input, const Exporter& exporter, const ExportPlan& plan) {
  const int layer = input.artifact.mtp_layers.front().index;
  const bool written = std::ranges::find(plan.scales, layer, &PlannedScale::layer) != plan.scales.end();
  if (written && plan.tensors.empty()) return "";
  if (written)
    return "the MTP layer has its scales too, which the server loads where it drafts tokens with it: " +
           std::string(exporter.name == "sglang"
                           ? "--speculative-algorithm NEXTN"
                           : "--speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 1}'");
  return std::string(input.model.with_mtp ? "this target has no place for the MTP layer's scales"
                                          : "the checkpoint has no MTP layer, and its scales are left out") +
         ": a server that drafts tokens with such a layer runs its cache at 1.0";
}

std::filesystem::path place_of(const ExportRequest& request, const ModelIdentity& model) {
  if (request.write.in_place) return model.folder;
  return request.out.empty() ? "OUT" : request.out;
}

}  // namespace

ExportResult export_scales(const ExportRequest& request) {
  const Exporter& exporter = find_exporter(request.target);
  check_request(request, exporter);

  // Scales, and the checkpoint that they were measured on.
  const std::string text = read_artifact_text(request.scales);
  const Artifact artifact = parse_artifact(text, request.scales);
  check_granularity(artifact, request.granularity);
  const ModelIdentity model = identify_model(request.model);
  check_fits(artifact, model);
  const Carrier carrier = carrier_of(read_config(model.folder).config, model.folder);
  ExportOptions options = request.options;
  for (const auto& folder : request.also_for) options.also_for.push_back(identify_model(folder));
  const std::string scales_sha256 = sha256_hex(text);
  std::optional<AppliedRecipe> recipe;
  if (!request.recipe.empty()) {
    recipe = recipe_for(request.recipe, artifact, scales_sha256, model, exporter);
    options.skip_layers = recipe->kept;
    options.formats = recipe->formats;
  } else if (exporter.is_served && exporter.is_assessed) {
    check_fitness(artifact, options);
  }
  const std::vector<int> skipped = skipped_layers(artifact, options);
  check_can_keep(exporter, skipped, model.spec.architecture);

  // What the target makes of them, in memory; then files.
  const ExportInput input = {artifact, model, carrier, options, request.scales, place_of(request, model)};
  ExportResult result = {exporter.plan(input), {}, input.out, skipped, recipe ? recipe->sha256 : ""};
  if (exporter.is_served && !artifact.mtp_layers.empty())
    if (const std::string note = note_on_mtp(input, exporter, result.plan); !note.empty())
      result.plan.serving.notes.push_back(note);
  // Of servers that load a checkpoint's scales, which have 1.0 without any, and of this format alone.
  const bool in_its_format = std::ranges::all_of(
      options.formats, [&](const auto& of_layer) { return of_layer.second == artifact.quantization.dtype; });
  if (exporter.writes_folder && exporter.is_assessed && skipped.empty() && in_its_format && !options.nvfp4)
    if (const std::string note = delivery_text(artifact); !note.empty())
      result.plan.serving.notes.insert(result.plan.serving.notes.begin(), note);
  if (recipe) {
    std::vector<std::string> notes = notes_on(*recipe, artifact);
    std::ranges::move(result.plan.serving.notes, std::back_inserter(notes));
    result.plan.serving.notes = std::move(notes);
  }
  if (request.plan_only) return result;
  WriteOptions how = request.write;
  how.scales_sha256 = scales_sha256;
  how.evaluation_sha256 = result.evaluation_sha256;
  result.report = write_export(exporter, input, result.plan, how);
  return result;
}

}  // namespace kvcal
