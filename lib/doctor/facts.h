// What all inputs together say about one server run. The rules read it; each input fills in its part.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/finding.h"
#include "checkpoint/fold_mark.h"
#include "deployment/cache_type.h"
#include "deployment/engine.h"
#include "deployment/installed_server.h"
#include "deployment/state_type.h"
#include "doctor/entry.h"
#include "doctor/output_text.h"
#include "doctor/serve_command.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"

namespace kvcal {

/// An option in effect, and where that was read.
struct Flag {
  std::string value;
  Evidence from;
  bool printed = false;  // by the server, which has the option; SGLang prints those with their defaults, too
};

/// The model's structure, from config.json or, with less certainty, from its name.
struct ModelTraits {
  std::string model_type, architecture;
  std::string family;        // architecture or name as squeezed small letters and digits: "minimaxm3awqint4"
  std::string weights_type;  // "bfloat16", "float16"; "": not said
  bool from_config = false;
  Trait hybrid = Trait::Unknown;      // recurrent layers, beside attention or alone
  Trait latent = Trait::Unknown;      // MLA: one latent row instead of keys and values
  Trait multimodal = Trait::Unknown;  // image or audio input
  Trait key_bias = Trait::Unknown;    // K projection with a bias and no norm: outlier channels
  Trait sliding = Trait::Unknown;
  Trait head_widths_differ = Trait::Unknown;                        // by layer
  Trait sparse = Trait::Unknown;                                    // attention over an index of tokens (DeepSeek-V3.2)
  int64_t n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;  // 0: unknown
  int64_t global_head_dim = 0;                                      // of layers without a window; 0: as the others
  int64_t intermediate = 0;                                         // width within an MLP
  StateRequest state;                                               // what config.json says of recurrent state
  double logit_cap = 0;                                             // final_logit_softcapping; 0: none
  int64_t latent_width = 0;                                         // of an MLA row: latent and rotated part
  int64_t prefill_width_k = 0, prefill_width_v = 0;                 // of an MLA head before it is absorbed
};

/// quantization_config, and what the checkpoint's tensors say. Only from a checkpoint or config.json.
struct CheckpointFacts {
  std::string path;
  KvDeclaration declaration;
  bool quantized_cache = false;  // generation_config.json asks transformers for one

  bool has_tensors = false;      // the following were looked at
  Report report;                 // of the checks that validate makes, too; of a config.json alone, what that says
  std::optional<FoldMark> fold;  // powers of two were folded into the weights
  size_t n_key_scales = 0, n_value_scales = 0, n_unit = 0, n_joint = 0, n_per_head = 0;
  std::string uneven_block_scale;  // name of the first block scale of weights that is no power of two
  double largest_key_bias = 0;     // of all that no norm takes away
  std::string largest_key_bias_name;
  std::map<ServerKind, Report> served;  // what the newest versions make of these tensors
  size_t n_fused = 0;                   // scales named ".qkv_proj.k_scale"
  size_t n_of_projections = 0;          // scales named ".k_proj.k_scale", ".v_proj.v_scale"
  bool foldable = false;                // kvcal fold may have a way into the weights of this class
  size_t n_scales() const { return n_key_scales + n_value_scales + n_joint; }
};

/// A kv-cache-scales.json or a server's scale JSON.
struct ScaleFacts {
  std::string path;
  bool is_artifact = false;
  size_t n_layers = 0, n_sites = 0, n_unit = 0, n_invalid = 0;
  std::string json_type;                // of a server's scale JSON: "float8_e4m3fn"
  std::map<std::string, size_t> ranks;  // of it: layers by tensor-parallel rank
  std::string model_type, architecture, fingerprint, config_sha256;
  int64_t latent_width = 0;        // of MLA rows; 0: none
  bool only_format_noise = false;  // at these scales nothing beyond rounding is felt, anywhere
  bool one_would_do = false;       // it says of every site that 1.0 does as well, and that FP8 is fine
  int64_t longest = 0;             // tokens of the longest calibration prompt; 0: unknown
  std::vector<std::string> also_valid_for;
};

/// A sample of output in which the answer is missing, and all there is are thoughts.
struct UnansweredOutput {
  std::string file, finish_reason;
};

/// A sample of output whose response has logits: the best of each token that shares it with another one.
struct TiedLogits {
  std::string file;
  std::vector<double> best;
};

/// A LoRA adapter's adapter_config.json.
struct AdapterFacts {
  std::string path;
  std::string cache_targets;  // which of its targets write the cache: "k_proj, v_proj"; "": none
};

struct Facts {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  Evidence version_from;
  std::optional<InstalledServer> installed;  // the server itself, where it could be asked
  std::optional<ServeCommand> command;
  Evidence command_from;
  std::vector<std::pair<ServeCommand, Evidence>> commands;  // that the user gave, in order: prefill and decode are two
  std::optional<Gpu> gpu;
  Evidence gpu_from;
  std::optional<AdapterFacts> adapter;
  std::map<std::string, Flag, std::less<>> flags;
  std::map<std::string, std::string, std::less<>> environment;
  bool of_ascend = false;  // by the log, vllm-ascend's plug-in is active
  std::string backend;     // attention backend that the log names: "FLASHINFER"
  Evidence backend_from;
  std::string logged_dtype, logged_other;  // of the KV cache, as the server prints it; another that is so and not so
  CacheType cache;                         // in effect; of resolve()
  ScaleUse scale_use = ScaleUse::Unknown;  // by this cache; of resolve()
  ServedState state;                       // of recurrent layers; of resolve()
  ModelTraits model;
  std::string model_path;
  std::shared_ptr<const CheckpointFacts> checkpoint;  // null: none; copies of the facts share it, which may be large
  std::string checkpoint_fingerprint, checkpoint_config_sha256;  // only when a scale file is there to compare
  std::optional<ScaleFacts> scales;
  std::map<std::string_view, Sign> lines;  // log lines of the catalog, by id
  std::vector<OutputTrouble> output;
  std::vector<UnansweredOutput> unanswered;
  std::vector<TiedLogits> tied_logits;
  bool has_log = false, has_output = false;
  bool has_answer = false;    // the output is text of a model, and no error of what stands in front of it
  bool has_started = false;   // by each log, the last start that it shows went through
  bool start_failed = false;  // by a log, some start did
  std::string platform;       // by the log: "cuda", "rocm", "xpu"
  std::string exception;    // the last one that the log shows: "AssertionError: FA4 ...", without those that only pass
  Evidence exception_from;  // one on

  /// A log tells the type of the cache.
  void take_logged_type(std::string_view type);
  bool seen(std::string_view line_id) const { return lines.contains(line_id); }
  const Flag* flag(std::string_view name) const;
  std::string flag_value(std::string_view name) const;  // "" when it is not given
  std::string variable(std::string_view name) const;    // of the environment; "" when it is not given
  bool is(Engine s) const { return server == s; }
  std::string cache_text() const;  // "bfloat16, by option"
  /// Unknown without a version: Yes or No only where a version is known.
  Trait before(const EngineVersion& limit) const;
  /// Of a hybrid under vLLM, which has prefix caching by default since 0.28.0: whether states are reused.
  Trait keeps_prefixes() const;
};

/// "FLASHINFER" also of "<AttentionBackendEnum.FLASHINFER: 'vllm.v1...'>", as a log has the option.
std::string named_backend(std::string_view value);

/// The option that names the attention backend that decodes; null where none does.
const Flag* backend_flag(const Facts& facts);

/// Triton takes the place of --attention-backend fa3, which stores no E5M2.
bool replaces_fa3(const Facts& facts);

/// The attention backend, in the option's or the log's spelling; "" when neither says.
std::string backend_of(const Facts& facts);

/// What llama.cpp is asked to store keys in; "": nothing is said, so F16.
std::string key_type_of_llama(const Facts& facts);

/// A plug-in that brings types of its own for the cache: vllm-ascend.
bool has_platform_of_its_own(const Facts& facts);

/// The command names a file of options that was not given: what it does not say may stand there.
bool has_options_elsewhere(const Facts& facts);

/// What the facts say of the KV cache's type.
CacheRequest cache_request(const Facts& facts);
/// The type in effect, from the facts' `cache`.
inline Trait cache_is_quantized(const Facts& facts) { return facts.cache.quantized; }

/// Whether the project's own plug-in sets the scales.
bool uses_plugin(const Facts& facts);

/// Where the checkpoint's scales would be applied if the cache were of this type.
ScaleUse scale_use_with(const Facts& facts, const CacheType& cache);

/// The server as the table of servers has it, where the version is that of the table or not given; none for others.
std::optional<Server> server_of_table(const Facts& facts);

/// What that table says of the checkpoint's class; nothing of one that it does not have, of another version, and
/// without config.json.
std::optional<ServerSupport> support_of(const Facts& facts);

/// What the table says of export, which gives a checkpoint without a quantization_config one of compressed-tensors.
/// Without config.json of the class that the log, or a name of a model with MLA, gives away.
std::optional<ServerSupport> support_of_export(const Facts& facts, ServerKind server);

/// How to serve the same with a cache that is not quantized: control_text()'s.
std::string control_of(const Facts& facts);

/// What the facts say of the type of recurrent state.
StateRequest state_request(const Facts& facts);

/// Settles what follows from all inputs together: the types of cache and state, and where scales are applied.
void resolve(Facts& facts);

/// Whether calibrated scales other than 1.0 are known: of the checkpoint or of a scale file.
bool has_calibrated_scales(const Facts& facts);

/// Whether the command's options or its dump are known at all.
bool knows_flags(const Facts& facts);

/// Fills in what a model's name gives away where config.json has not been read.
void take_model_name(const std::string& name, ModelTraits& model);

/// The facts as they would be with each version whose code was looked at, the oldest first. None where the version is
/// known, and of servers other than vLLM and SGLang.
std::vector<Facts> with_each_version(const Facts& facts);

/// "vLLM 0.15.0 or later" of these facts, by their index; "" where it holds with all versions, or with none.
std::string versions_where(const std::vector<Facts>& each, const std::function<bool(size_t)>& holds);

}  // namespace kvcal
