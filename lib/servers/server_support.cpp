#include "servers/server_support.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "servers/ascend_support.h"
#include "servers/server_table.h"

namespace kvcal {
namespace {

constexpr Server kVerifiedVllm{ServerKind::Vllm, 0, 33, 0}, kVerifiedSglang{ServerKind::Sglang, 0, 5, 23};

/// Numbers that were not given count as those of `other`.
int compare(const Server& server, const Server& other) {
  const std::array a = {server.major, server.minor, server.patch}, b = {other.major, other.minor, other.patch};
  for (size_t i = 0; i < a.size() && a[i] >= 0; ++i)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

bool is_below(const Server& server, int major, int minor) {
  return compare(server, {server.kind, major, minor, 0}) < 0;
}

std::vector<std::string> vllm_notes(const Server& server) {
  std::vector<std::string> notes;
  const auto add = [&](bool holds, const char* note) {
    if (holds) notes.emplace_back(note);
  };
  add(is_below(server, 0, 7), "before 0.7.0 a JSON side file was read (--quantization-param-path), by Llama alone");
  add(is_below(server, 0, 20),
      "until 0.19 FlashInfer and AITER gave garbage with compressed-tensors scales other than 1 (fixed by #39418)");
  add(is_below(server, 0, 25),
      "before 0.25 each class renamed scales itself, scales of latent attention loaded from ModelOpt checkpoints, and "
      "scales without a quantization_config were skipped with a warning");
  return notes;
}

std::string evidence(const ClassLoading& line, const LoaderLine& loader, ServerKind kind) {
  const std::string wheel = (kind == ServerKind::Vllm ? "vLLM " : "SGLang ") +
                            str(verified_server(kind)).substr(kind == ServerKind::Vllm ? 5 : 7);
  if (line.source == kRun) return "run: " + wheel;
  return "read: " + wheel + " " +
         (line.source.empty() ? std::string(loader.source) : "models/" + std::string(line.source) + ".py");
}

const LoaderLine& loader_named(ServerKind kind, std::string_view name) {
  const auto lines = loader_lines(kind);
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const LoaderLine& l) { return l.name == name; });
  if (found == lines.end()) fail("no loader " + quoted(name) + " in the table of servers");
  return *found;
}

const ClassLine& class_named(std::string_view architecture) {
  const auto lines = class_lines();
  const auto found =
      std::find_if(lines.begin(), lines.end(), [&](const ClassLine& l) { return l.architecture == architecture; });
  if (found != lines.end()) return *found;
  std::vector<std::string> known;
  for (const ClassLine& line : lines) known.emplace_back(line.architecture);
  fail_unknown("architecture", architecture, known);
}

bool makes_parameters(ServerKind kind, KvCarrier carrier) {
  if (carrier == KvCarrier::None || carrier == KvCarrier::Other) return false;
  return kind == ServerKind::Vllm || carrier != KvCarrier::PerHead;
}

/// The server does not start, with scales or without.
bool stops_at(const LoaderLine& loader, KvCarrier carrier) {
  return loader.asks_config &&
         (carrier == KvCarrier::Fp8 || carrier == KvCarrier::ModelOpt || carrier == KvCarrier::Quark);
}

std::string no_parameters(ServerKind kind, KvCarrier carrier) {
  if (carrier == KvCarrier::PerHead) return "SGLang ignores scales per head (strategy attn_head)";
  return carrier == KvCarrier::None
             ? "the checkpoint has no quantization_config, so the server makes no parameters for scales"
             : std::string(kind == ServerKind::Vllm ? "vLLM" : "SGLang") +
                   " makes no parameters for scales with this weight format";
}

/// Attention over keys that an indexer picks, which the plug-ins do not know.
bool is_sparse(const ServerSupport& s) { return s.loader.ends_with("sparse"); }

std::string plugin_of(const ServerSupport& s) {
  if (s.loads || !s.served || is_sparse(s)) return "";
  if (s.server.kind == ServerKind::Vllm) return "vllm-kv-cache-scales";
  return s.loader.starts_with("latent") ? "" : "sglang-kv-cache-scales";
}

/// What was read in the backends of the verified releases; the loaders were run without a forward pass.
std::string backend_of(const ServerSupport& s) {
  const bool vllm = s.server.kind == ServerKind::Vllm, latent = s.loader.starts_with("latent");
  if (!s.served) return "not verified";
  if (is_sparse(s) && !latent) return "not verified";
  if (is_sparse(s))
    return vllm ? "read: FLASHMLA_SPARSE stores fp8_ds_mla, which ignores it; FLASHINFER_MLA_SPARSE applies one, but "
                  "none is loaded"
                : "read: the packed FP8 pool ignores it";
  if (latent && vllm)
    return "read: FLASHMLA, FLASHINFER_MLA, TRITON_MLA, TOKENSPEED_MLA, ROCM_AITER_MLA apply a scale; CUTLASS_MLA "
           "raises, flashinfer_mla_sparse_sm90 and *_ds_mla ignore it";
  if (latent) return "read: only the Triton backend divides by the scale on writing";
  if (s.carrier == KvCarrier::PerHead)
    return "only FlashAttention 3 and later takes scales per head (run: vLLM 0.33.0 refuses the others)";
  // vllm/v1/attention/backends/{flash_attn,flashinfer,triton_attn}.py; sglang/srt/layers/attention/flash*_backend.py,
  // triton_backend.py and the pool they write to, mem_cache/memory_pool.py
  return vllm ? "read: FLASH_ATTN, FLASHINFER and TRITON_ATTN take it on writing and on reading; of others not verified"
              : "read: FlashAttention 3 (heads up to 256 wide), FlashInfer and Triton take it on writing and on "
                "reading; of others not verified";
}

bool has(Spellings set, ScaleSpelling spelling) { return (set & set_of(spelling)) != 0; }

/// vLLM keeps the scales of these in parameters of the model's dtype.
bool rounds(const ServerSupport& s) {
  return s.server.kind == ServerKind::Vllm &&
         (s.carrier == KvCarrier::Fp8 || s.carrier == KvCarrier::ModelOpt || s.carrier == KvCarrier::Quark);
}

/// vLLM's latent classes look names up one by one.
bool looks_up(const LoaderLine& loader) {
  return loader.name == "latent" || loader.name == "latent, asking" || loader.name == "latent, sparse";
}

Effect vllm_effect(const ServerSupport& s, const LoaderLine& loader, ScaleSpelling spelling) {
  if (s.carrier == KvCarrier::None) return loader.bare;
  const bool output = spelling == ScaleSpelling::Output;
  if (output && s.carrier != KvCarrier::Fp8 && s.carrier != KvCarrier::Quark) return Effect::Refused;
  if (spelling == ScaleSpelling::Latent) return looks_up(loader) ? Effect::Warned : Effect::Refused;
  if (has(loader.crashes, spelling)) return Effect::Refused;
  if (loader.accepts == 0 || !makes_parameters(ServerKind::Vllm, s.carrier)) return loader.other;
  if (spelling == ScaleSpelling::Shared) return Effect::KeyOnly;
  // What a projection puts out is renamed as its scales are.
  if (!has(loader.accepts, output ? ScaleSpelling::Projection : spelling)) return loader.other;
  return rounds(s) ? Effect::Rounded : Effect::Exact;
}

Effect sglang_effect(const ServerSupport& s, const LoaderLine& loader, ScaleSpelling spelling) {
  if (has(loader.crashes, spelling)) return Effect::Crash;
  if (!has(loader.accepts, spelling)) return loader.other;
  return makes_parameters(ServerKind::Sglang, s.carrier) ? Effect::Exact : loader.bare;
}

}  // namespace

Server parse_server(std::string_view text) {
  const size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const std::vector<std::string> known = {"vllm", "sglang"};
  if (name != known[0] && name != known[1]) fail_unknown("server", name, known);
  Server server = verified_server(name == known[0] ? ServerKind::Vllm : ServerKind::Sglang);
  if (at == text.npos) return server;
  server.major = server.minor = server.patch = -1;
  const char *cursor = text.data() + at + 1, *end = text.data() + text.size();
  for (int* number : {&server.major, &server.minor, &server.patch}) {
    const auto [next, error] = std::from_chars(cursor, end, *number);
    if (error != std::errc() || *number < 0) break;
    if (next == end) return server;
    if (*next != '.') break;
    cursor = next + 1;
  }
  fail("server " + quoted(text) + ": expected a version of up to three numbers, as in vllm@0.33 or sglang@0.5.23");
}

std::string str(const Server& server) {
  std::string text = server.kind == ServerKind::Vllm ? "vllm" : "sglang", separator = "@";
  for (const int number : {server.major, server.minor, server.patch}) {
    if (number < 0) break;
    text += separator + std::to_string(number);
    separator = ".";
  }
  return text;
}

Server verified_server(ServerKind kind) { return kind == ServerKind::Vllm ? kVerifiedVllm : kVerifiedSglang; }

bool is_verified(const Server& server) { return compare(server, verified_server(server.kind)) == 0; }

bool knows_side_files(const Server& server) {
  const bool older_vllm = server.kind == ServerKind::Vllm && !is_below(server, 0, 7);
  return is_verified(server) || (older_vllm && compare(server, verified_server(server.kind)) < 0);
}

std::vector<std::string> version_notes(const Server& server) {
  const Server verified = verified_server(server.kind);
  if (is_verified(server)) return {};
  std::vector<std::string> notes = {"what " + str(server) + " does with these scales was not checked; for " +
                                    str(verified) + " it is known"};
  if (server.kind == ServerKind::Vllm)
    for (std::string& note : vllm_notes(server)) notes.push_back(std::move(note));
  else if (compare(server, verified) < 0)
    notes.emplace_back("releases before 2026-08-20 (#35455) drop the scales of compressed-tensors checkpoints");
  return notes;
}

std::string_view name_of(KvCarrier carrier) {
  constexpr std::array<std::string_view, 7> kNames = {
      "none", "compressed-tensors", "compressed-tensors, per head", "fp8", "modelopt", "quark", "other"};
  return kNames[static_cast<size_t>(carrier)];
}

std::string scale_suffix(ScaleSpelling spelling, char site) {
  constexpr std::array<std::string_view, 8> kSuffixes = {
      ".?_scale",       ".?_proj.?_scale",      ".attn.?_scale", ".qkv_proj.?_scale",
      ".?_cache.scale", ".?_proj.output_scale", ".kv_scale",     ".attn_mqa.?_scale"};
  if (spelling == ScaleSpelling::Cache && site == 'q') return ".q.scale";
  std::string suffix(kSuffixes.at(static_cast<size_t>(spelling)));
  std::ranges::replace(suffix, '?', site);
  return suffix;
}

ScaleSpelling spelling_of(std::string_view suffix) {
  for (int i = 0; i <= static_cast<int>(ScaleSpelling::Latent); ++i)
    for (const char site : {'k', 'v', 'q'})
      if (scale_suffix(static_cast<ScaleSpelling>(i), site) == suffix) return static_cast<ScaleSpelling>(i);
  if (suffix == ".attn.kv_scale" || suffix == ".qkv_proj.kv_scale") return ScaleSpelling::Shared;
  fail("no name of KV scales ends with " + quoted(suffix));
}

std::string_view name_of(Effect effect) {
  constexpr std::array<std::string_view, 7> kNames = {"exact",
                                                      "rounded to the model's dtype",
                                                      "key only",
                                                      "left out with a warning",
                                                      "left out without a word",
                                                      "refused",
                                                      "crash"};
  return kNames[static_cast<size_t>(effect)];
}

bool loads(Effect effect) { return effect == Effect::Exact || effect == Effect::Rounded; }
bool stops(Effect effect) { return effect == Effect::Refused || effect == Effect::Crash; }

namespace {

ServerSupport support_by(const ClassLoading& loading, const Server& server, std::string_view architecture,
                         KvCarrier carrier) {
  const LoaderLine& loader = loader_named(server.kind, loading.loader);
  ServerSupport s;
  s.server = server;
  s.architecture = architecture;
  s.carrier = carrier;
  s.loader = loader.name;
  s.served = loader.name != "removed" && loader.name != "no class" && loader.name != "unloadable" &&
             !stops_at(loader, carrier);
  s.write = loader.write;
  s.why_not = loader.why_not;
  if (stops_at(loader, carrier))
    s.why_not =
        "the class asks the quantization config for names of scales (get_cache_scale), which only that of "
        "compressed-tensors answers: with any other the server does not start";
  if (s.why_not.empty() && !makes_parameters(server.kind, carrier)) s.why_not = no_parameters(server.kind, carrier);
  s.loads = s.why_not.empty();
  s.query = effect_of(s, ScaleSpelling::Attention, 'q');
  s.json = loading.json;
  s.plugin = plugin_of(s);
  s.backend = backend_of(s);
  s.source = evidence(loading, loader, server.kind);
  return s;
}

}  // namespace

ServerSupport server_support(const Server& server, std::string_view architecture, KvCarrier carrier) {
  const ClassLine& line = class_named(architecture);
  return support_by(line.by(server.kind), server, line.architecture, carrier);
}

ServerSupport mtp_support(const Server& server, std::string_view architecture, KvCarrier carrier) {
  const auto line = std::ranges::find(mtp_lines(), architecture, &MtpLine::architecture);
  if (server.kind != ServerKind::Vllm || line == mtp_lines().end())
    return server_support(server, architecture, carrier);
  return support_by(line->vllm, server, line->architecture, carrier);
}

Effect effect_of(const ServerSupport& s, ScaleSpelling spelling, char site) {
  const LoaderLine& loader = loader_named(s.server.kind, s.loader);
  if (stops_at(loader, s.carrier)) return Effect::Crash;
  if (s.server.kind == ServerKind::Sglang) return site == 'q' ? loader.query : sglang_effect(s, loader, spelling);
  // Its pattern for projections knows k and v only.
  if (site == 'q' && (spelling == ScaleSpelling::Projection || spelling == ScaleSpelling::Fused) &&
      s.carrier != KvCarrier::None)
    return loader.crashes ? Effect::Refused : Effect::Dropped;
  return vllm_effect(s, loader, spelling);
}

bool misreads_rows(const ServerSupport& s) {
  return s.server.kind == ServerKind::Sglang && s.loader.starts_with("latent") && !is_sparse(s);
}

Effect effect_of_orphan(const ServerSupport& s) {
  const LoaderLine& loader = loader_named(s.server.kind, s.loader);
  if (stops_at(loader, s.carrier)) return Effect::Crash;
  // All others walk the tree of modules, and stop where it ends.
  if (s.server.kind == ServerKind::Vllm) return looks_up(loader) ? Effect::Warned : Effect::Refused;
  return loader.other == Effect::Crash || loader.bare == Effect::Crash ? Effect::Crash : loader.other;
}

AscendSupport ascend_support(std::string_view architecture, AscendCache cache) {
  // Those that 0.23 patches (patch/worker/patch_gqa_c8.py); other classes stop at the tensors there.
  constexpr std::array kPatched = {"Qwen3ForCausalLM", "Glm4MoeForCausalLM", "MiniMaxM2ForCausalLM"};
  const ClassLine& line = class_named(architecture);
  const bool is_int8 = cache == AscendCache::Int8, is_mapped = line.vllm.loader == "mapped";
  const bool is_patched = is_int8 && std::ranges::find(kPatched, architecture) != kPatched.end();
  // What merges projections leaves the one of values alone that is not named for one.
  const bool is_renamed = line.ascend == AscendLoading::Renamed || (!is_int8 && line.ascend == AscendLoading::Merged);
  if (is_mapped && is_renamed) return {is_patched ? "0.23 and 0.30" : "0.30", ""};
  if (is_patched) return {"0.23", ""};
  if (line.vllm.loader == "latent, sparse") return {"", "its sparse attention has scales of its own in each row"};
  if (line.vllm.loader.starts_with("latent"))
    return {"",
            "of latent attention it takes one (FAKQuant, 'fa_k.scale') beside projections that ModelSlim quantized; "
            "plain ones, which export leaves as they are, stop its loader, or reach an operator that CANN documents "
            "with quantized ones alone"};
  if (!is_mapped) return {"", "vLLM's class has no attention that takes scales by these names"};
  return {"", line.ascend == AscendLoading::Merged
                  ? "its loader makes qkv_proj of k_proj before scales are renamed, so they are lost"
                  : "what vLLM 0.30 does with this class's scales was not read"};
}

std::string scale_tensor(const ServerSupport& support, std::string_view attention, char site) {
  return std::string(attention) + scale_suffix(support.write, site);
}

}  // namespace kvcal
