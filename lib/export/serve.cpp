#include "export/serve.h"

#include <algorithm>
#include <cctype>

#include "base/lines.h"
#include "export/layer_scales.h"
#include "servers/foldable.h"

namespace kvcal {
namespace {

// $'...' of bash, ksh and zsh: what a terminal would not show as it is, as bytes.
std::string escaped_word(const std::string& text) {
  std::string word = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view(" -_./=:@%+,").find(c) != std::string_view::npos) {
      word += c;
    } else {
      constexpr std::string_view kHex = "0123456789abcdef";
      word += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return word + "'";
}

}  // namespace

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_./=:@%+,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  if (printable(text) != text) return escaped_word(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string plugin_advice(const ServerSupport& support, const ExportInput& input) {
  const std::string model = input.model.folder.string(), scales = std::filesystem::absolute(input.scales).string();
  const std::string command = support.server.kind == ServerKind::Sglang
                                  ? "KV_CACHE_SCALES=" + shell_word(scales) + " " + sglang_command(model, "fp8_e4m3")
                                  : "vllm serve " + shell_word(model) +
                                        " --kv-cache-dtype fp8 --load-format kv_cache_scales --additional-config " +
                                        shell_word(Json{{"kv_cache_scales", scales}}.dump());
  return "the plug-in " + support.plugin + ", which comes with kvcal, reads the scale file itself: " + command;
}

std::string fold_advice(const ServerSupport& support, const ExportInput& input) {
  if (support.loads || !support.served) return "";
  if (const std::optional<FoldMark>& fold = input.model.fold)
    return fold->n_left == 0 ? "; the weights are folded so that scale 1.0 is right: serve this folder as it is" : "";
  if (!may_be_folded(input.model.spec)) return "";
  const std::string model = input.model.folder.string();
  return "; or put powers of two into the weights, where those allow it, and load none: kvcal fold " +
         shell_word(model) + " --stats run.kvstats -o " + shell_word(model + "-folded");
}

std::string vllm_command(const ExportInput& input, const std::string& kv_cache_dtype) {
  std::string command = "vllm serve " + shell_word(input.out.string()) + " --kv-cache-dtype " + kv_cache_dtype;
  const std::vector<int> skipped = skipped_layers(input.artifact, input.options);
  if (!skipped.empty()) command += " --kv-cache-dtype-skip-layers";
  for (const int layer : skipped) command += " " + std::to_string(layer);
  return command;
}

std::string sglang_command(const std::string& model, const std::string& kv_cache_dtype) {
  return "python3 -m sglang.launch_server --model-path " + shell_word(model) + " --kv-cache-dtype " + kv_cache_dtype;
}

std::string vllm_snippet(const ExportInput& input, const std::string& kv_cache_dtype) {
  return "# VLLM_ALLOW_INSECURE_SERIALIZATION=1 python3 read_scales.py\n"
         "from vllm import LLM\n"
         "\n"
         "def scales(model):\n"
         "    return {name: [m._k_scale.tolist(), m._v_scale.tolist(), m._q_scale.tolist()]\n"
         "            for name, m in model.named_modules() if hasattr(m, '_k_scale')}\n"
         "\n"
         "if __name__ == '__main__':\n"
         "    llm = LLM(" +
         Json(input.out.string()).dump() + ", kv_cache_dtype='" + kv_cache_dtype +
         "', enforce_eager=True)\n"
         "    for name, (k, v, q) in llm.apply_model(scales)[0].items():\n"
         "        print(name, 'k', k, 'v', v, 'q', q)\n";
}

std::string sglang_snippet() {
  return "# scale_reader.py in a folder on PYTHONPATH, beside scale_reader-1.dist-info/METADATA ('Name: "
         "scale_reader',\n"
         "# 'Version: 1') and scale_reader-1.dist-info/entry_points.txt:\n"
         "#   [sglang.srt.plugins]\n"
         "#   scale_reader = scale_reader:register\n"
         "def tell(original, *args, model, **kwargs):\n"
         "    result = original(*args, model=model, **kwargs)\n"
         "    for name, m in model.named_modules():\n"
         "        if type(m).__name__ == 'RadixAttention':\n"
         "            print(name, 'k', m.k_scale_float, 'v', m.v_scale_float, flush=True)\n"
         "    return result\n"
         "\n"
         "def register():\n"
         "    from sglang.srt.plugins.hook_registry import HookRegistry, HookType\n"
         "    HookRegistry.register('sglang.srt.model_executor.model_runner_components.load_model_utils'\n"
         "                          '.load_kv_cache_scales', tell, HookType.AROUND)\n";
}

}  // namespace kvcal
