#include "next_step.h"

#include <optional>

#include "artifact/delivery.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/kv_scale_names.h"
#include "export/export.h"
#include "export/serve.h"
#include "output_file.h"
#include "servers/server_support.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

Lines serve_with_file(const std::string& command) { return step("serve with the file", command); }
Lines serve_as_it_is(const std::string& command) { return step("serve at scale 1.0, as it is", command); }

bool is_fp8(const Artifact& artifact) { return artifact.quantization.dtype.starts_with("fp8"); }

Lines evaluate(const NextStepInputs& in) {
  std::string text = "kvcal evaluate " + (in.model.empty() ? "MODEL" : shell_word(in.model));
  for (const std::string& word : in.prompts) text += " " + shell_word(word);
  return step("measure what that does to answers", text + " --scales " + shell_word(in.scales.string()));
}

/// None for a class that the table of servers does not have.
std::optional<ServerSupport> support_of(ServerKind kind, const Artifact& artifact) {
  try {
    return server_support(verified_server(kind), artifact.model.architecture, KvCarrier::CompressedTensors);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The checkpoint as it is, where 1.0 is what it gets.
Lines serve(const Artifact& artifact, const NextStepInputs& in) {
  if (has_scales(in.folder)) return {};
  if (const auto vllm = support_of(ServerKind::Vllm, artifact); vllm && vllm->served)
    return serve_as_it_is("vllm serve " + shell_word(in.model) + " --kv-cache-dtype fp8");
  if (const auto sglang = support_of(ServerKind::Sglang, artifact); sglang && sglang->served)
    return serve_as_it_is(sglang_command(in.model, "fp8_e4m3"));
  return {};
}

/// "Qwen3-0.6B-fp8kv": beside the model's folder, or here for a model of the Hub.
std::string new_folder(const NextStepInputs& in) {
  const fs::path named = fs::path(in.model).lexically_normal();
  const bool is_path = fs::path(in.model) == in.folder;
  std::string base = is_path ? named.string() : named.filename().string();
  while (base.size() > 1 && base.ends_with('/')) base.pop_back();
  if (named.filename() == "." || named.filename() == "..") base = "model";
  base += "-fp8kv";
  std::error_code ignored;
  std::string name = base;
  for (int n = 2; fs::exists(name, ignored); ++n) name = base + "-" + std::to_string(n);
  return name;
}

/// Tried without writing. Throws Error as export does.
Lines exported(const NextStepInputs& in, const std::string& target, bool skip_keep16) {
  ExportRequest request;
  request.scales = in.scales;
  request.model = in.folder;
  request.target = target;
  request.plan_only = true;
  request.options.skip_keep16 = skip_keep16;
  request.options.replace_scales = has_scales(in.folder);
  request.out = new_folder(in);
  export_scales(request);
  std::string text = "kvcal export " + shell_word(in.scales.string()) + " --model " + shell_word(in.model);
  if (target != "vllm") text += " --to " + target;
  if (skip_keep16) text += " --skip-layers keep16";
  if (request.options.replace_scales) text += " --replace-scales";
  return serve_with_file(text + " -o " + shell_word(request.out.string()));
}

std::vector<std::string> targets_for(const Artifact& artifact) {
  if (is_fp8(artifact)) return {"vllm", "sglang"};
  return {"vllm", "modelopt", "vllm-ascend"};
}

/// Without a checkpoint, by its class.
Lines by_class(const Artifact& artifact, const NextStepInputs& in) {
  const auto loads = [&](ServerKind kind) {
    const auto support = support_of(kind, artifact);
    return support && support->loads;
  };
  const std::string keep = keep16_layers(artifact).empty() ? "" : " --skip-layers keep16";
  const std::string text = "kvcal export " + shell_word(in.scales.string()) + " --model MODEL";
  if (loads(ServerKind::Vllm)) return serve_with_file(text + keep + " -o MODEL-fp8kv");
  if (keep.empty() && loads(ServerKind::Sglang)) return serve_with_file(text + " --to sglang -o MODEL-fp8kv");
  return step("see which servers load scales of this class", "kvcal inspect MODEL");
}

}  // namespace

Lines step(const std::string& what, const std::string& command) {
  return Lines("next: " + what + ":") + Lines("  " + command);
}

bool has_scales(const fs::path& folder) { return !kv_scale_tensors(Checkpoint::open(folder)).empty(); }

Lines serve_with_scales(const Artifact& artifact, const NextStepInputs& in) {
  const bool keeps = !keep16_layers(artifact).empty();
  std::string why;
  for (const std::string& target : targets_for(artifact)) {
    try {
      return exported(in, target, keeps);
    } catch (const Error& e) {
      if (why.empty()) why = e.what();
    }
  }
  return Lines("next: 'kvcal export' has no way into this checkpoint; " + why);
}

Lines next_step(const Artifact& artifact, const NextStepInputs& in) {
  if (is_standard_output(in.scales) || !is_fp8(artifact) || !converged(artifact)) return {};
  if (keeps_whole_cache(artifact)) return {};  // there is nothing to serve in FP8
  const bool keeps = !keep16_layers(artifact).empty();
  if (!keeps && !most_changed_layers(artifact).empty()) return in.evaluates ? Lines() : evaluate(in);
  if (in.model.empty()) return serves_as_it_is(artifact) && !keeps ? Lines() : by_class(artifact, in);
  if (!keeps && serves_as_it_is(artifact))
    if (const Lines as_it_is = serve(artifact, in); !as_it_is.empty()) return as_it_is;
  return serve_with_scales(artifact, in);
}

}  // namespace kvcal
