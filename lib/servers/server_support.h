// What current servers do with the KV-cache scales of a checkpoint: one table, for exporters, validate,
// inspect and docs/servers.md alike. Its lines are in server_table.cpp, each with where it is known from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

enum class ServerKind : uint8_t { Vllm, Sglang };

/// A server as the user names it. A number that was not given is -1.
struct Server {
  ServerKind kind = ServerKind::Vllm;
  int major = -1, minor = -1, patch = -1;
  bool operator==(const Server&) const = default;
};

/// "vllm", "vllm@0.33", "sglang@0.5.23". Without a version: the one that the table was verified with. Throws Error.
Server parse_server(std::string_view text);
std::string str(const Server& server);

/// The version whose own loading code was executed or read for the table.
Server verified_server(ServerKind kind);

/// Whether the table speaks of this version. Of others it is not known what they do.
bool is_verified(const Server& server);

/// Whether it is known what a server makes of a scale file beside the checkpoint: of vLLM since it takes none.
bool knows_side_files(const Server& server);

/// What is known of other versions than the verified one: a sentence each; empty for the verified one.
std::vector<std::string> version_notes(const Server& server);

/// How a checkpoint's quantization_config lets a server make parameters for scales.
enum class KvCarrier : uint8_t {
  None,               // no quantization_config at all
  CompressedTensors,  // one scale per tensor
  PerHead,            // compressed-tensors with strategy attn_head
  Fp8,
  ModelOpt,
  Quark,
  Other  // awq, gptq, bitsandbytes, mxfp4, ...: none of them makes any
};
std::string_view name_of(KvCarrier carrier);

/// How the name of a scale goes on after the attention module's.
enum class ScaleSpelling : uint8_t {
  Attention,   // .k_scale
  Projection,  // .k_proj.k_scale
  Native,      // .attn.k_scale
  Fused,       // .qkv_proj.k_scale
  Cache,       // .k_cache.scale
  Output,      // .k_proj.output_scale
  Shared,      // .kv_scale: one for both
  Latent       // .attn_mqa.k_scale: a module of SGLang's latent attention
};

/// ".k_scale" for (Attention, 'k'); sites are k, v and q. Shared is ".kv_scale" whatever the site.
std::string scale_suffix(ScaleSpelling spelling, char site);
/// The reverse, for any site; throws Error for a suffix that no producer writes.
ScaleSpelling spelling_of(std::string_view suffix);

/// What becomes of a tensor.
enum class Effect : uint8_t {
  Exact,    // is the scale, as written in float32
  Rounded,  // is the scale after rounding to the model's dtype
  KeyOnly,  // becomes the key's scale; the value's stays 1.0
  Warned,   // is left out with a warning: scale 1.0
  Dropped,  // is left out without a warning
  Refused,  // the server says why it does not start
  Crash     // the server does not start, with a bare KeyError or AssertionError
};
std::string_view name_of(Effect effect);
bool loads(Effect effect);  // Exact, Rounded
bool stops(Effect effect);  // Refused, Crash

/// All that the table says of a class of models under one server and one carrier.
struct ServerSupport {
  Server server;
  std::string_view architecture;
  KvCarrier carrier = KvCarrier::None;
  std::string_view loader;                         // LoaderLine::name of server_table.h
  bool served = true;                              // whether the server has and loads the class
  bool loads = false;                              // whether some spelling reaches the cache
  ScaleSpelling write = ScaleSpelling::Attention;  // which one to write, where it loads
  std::string why_not;                             // where it does not load
  Effect query = Effect::Dropped;                  // of a query scale beside them
  bool json = false;                               // whether --quantization-param-path is read for this class
  std::string plugin;                              // the one that gives the scales nevertheless; "" = none needed
  std::string backend;                             // whether attention was seen to apply what was loaded
  std::string source;                              // "run: vLLM 0.33.0", "read: SGLang 0.5.23 models/gemma2.py"
};

/// Of any class that the program calibrates; throws Error for others.
ServerSupport server_support(const Server& server, std::string_view architecture, KvCarrier carrier);

/// The same of the class that loads its MTP layer where the server drafts tokens with it.
ServerSupport mtp_support(const Server& server, std::string_view architecture, KvCarrier carrier);

/// What becomes of a tensor whose name has this spelling. `site` is k, v or q.
Effect effect_of(const ServerSupport& support, ScaleSpelling spelling, char site);

/// Whether scales of latent rows arrive, and flashmla and trtllm_mla multiply rows by them that nothing was divided by:
/// SGLang's, but for sparse attention, whose backends differ by GPU.
bool misreads_rows(const ServerSupport& support);

/// What becomes of a scale whose module the model does not have.
Effect effect_of_orphan(const ServerSupport& support);

/// The tensor to write for a site of an attention module such as "model.layers.3.self_attn".
std::string scale_tensor(const ServerSupport& support, std::string_view attention, char site);

}  // namespace kvcal
