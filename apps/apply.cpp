// kvcal apply PACK MODEL: the scales that somebody else published, into a checkpoint.
#include <CLI/CLI.hpp>
#include <memory>

#include "build_info.h"
#include "export.h"
#include "export/pack.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ApplyFlags {
  std::string pack, skip_layers;
  ExportRequest request;
};

Exit run(const ApplyFlags& flags) {
  ExportRequest request = flags.request;
  if (!request.write.in_place) request.model = model_folder(request.model.string());
  if (!find_exporter(request.target).writes_folder)
    fail("'--to " + request.target + "' writes no checkpoint: export the pack's scale file with it");
  const Pack pack = read_pack(flags.pack);
  if (pack.has_recipe && (!flags.skip_layers.empty() || request.options.allow_keep16))
    fail(quoted(flags.pack) +
         " has a recipe, which says which layers are kept in 16 bits: --skip-layers and "
         "--allow-keep16 are for packs without one");
  read_skip_layers(flags.skip_layers, request.options);
  check_is_for(pack, identify_model(request.model));
  request.scales = pack.scales();
  request.recipe = pack.recipe();
  request.write.tool_version = std::string("kvcal ") + build_info().version;
  return run_export(request, false);
}

}  // namespace

void add_apply(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ApplyFlags>();
  CLI::App* verb = app.add_subcommand("apply", "Apply the scales of a pack to the checkpoint that it is for");
  ExportRequest& request = flags->request;
  verb->add_option("PACK", flags->pack, "Folder of 'kvcal export --to pack'")->required();
  verb->add_option("MODEL", request.model, "Checkpoint folder; not modified unless --in-place")->required();
  verb->add_option("-o,--out", request.out, "Folder to write")->type_name("PATH");
  add_export_options(*verb, request, flags->skip_layers);
  verb->footer(
      "Files are checked against the pack's SHA256SUMS, the model against the fingerprint that was measured. The "
      "result\n"
      "is that of 'kvcal export' with the pack's scale file and recipe, byte for byte; 'kvcal export --help' lists\n"
      "the targets.\n"
      "\n"
      "Examples:\n"
      "  kvcal apply ./qwen3-8b-kv-scales ./Qwen3-8B -o ./Qwen3-8B-fp8kv\n"
      "  kvcal apply ./qwen3-8b-kv-scales ./Qwen3-8B --in-place --to sglang");
  verb->callback([flags, verb, &chosen] {
    refuse_idle_force(*verb, flags->request.out);
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
