#include "capacity/assumptions.h"

#include <algorithm>

#include "base/number_text.h"
#include "base/size_text.h"

namespace kvcal {
namespace {

std::string weights_text(const ModelSpec& spec, const WeightBytes& w) {
  switch (w.source) {
    case WeightSource::Headers:
      return "size of the checkpoint's files, with everything in them (also vision towers and draft heads); F32 "
             "of an "
             "unquantized checkpoint is loaded in 16 bits";
    case WeightSource::Index:
      return "from the index of the checkpoint; its files are missing";
    case WeightSource::Config:
      return "estimated from the config: " + formatted("%.4g", static_cast<double>(w.parameters) / 1e9) +
             " billion parameters of the language model, " +
             (w.by_module ? "each module in the bits that quantized_layers has for it, what it does not list in 16"
              : w.bits == 16
                  ? "all in 16 bits"
                  : formatted("%.3g", w.bits) + " bits each with their scales, embedding, head and norms in 16") +
             "; without vision tower" + (spec.n_mtp_layers > 0 ? "" : ", draft head") + " and modules left unquantized";
    case WeightSource::Given:
      return "as given";
  }
  return "";
}

void add_machine(const ModelSpec& spec, const Capacity& c, std::vector<Assumption>& out) {
  const Deployment& d = c.deployment;
  out.push_back({"utilization",
                 "the server takes " + formatted("%.3g", d.utilization) + " of each GPU's memory, by default " +
                     (d.gpu.unified ? formatted("%.3g", kUtilizationOfUnified) +
                                          ": the system and its file cache live in the same memory"
                                    : formatted("%.3g", kUtilization)),
                 "--gpu-memory-utilization"});
  out.push_back({"allowance",
                 gib_text(static_cast<int64_t>(d.allowance)) +
                     " of that on each GPU are for activations of a prefill chunk, CUDA graphs, communication and the "
                     "runtime: a round figure, not computed from the model",
                 "--allowance"});
  out.push_back({"weights", weights_text(spec, c.weights), "--weights"});
  if (d.tp > 1)
    out.push_back({"tensor_parallel",
                   "weights and recurrent state divide evenly among the GPUs of a group (norms, routers and MLA's down "
                   "projections "
                   "are really copied: mostly under 1 %); key-value heads divide, or are copied where there are "
                   "fewer than GPUs; "
                   "an MLA row is on every GPU",
                   "--tp"});
  if (d.replicas() > 1)
    out.push_back({"replicas",
                   std::to_string(d.replicas()) + " groups of " + std::to_string(d.tp) +
                       " GPUs serve side by side, each with the whole model, and share the sequences evenly",
                   "--gpus"});
}

void add_cache(const ModelSpec& spec, const Capacity& c, std::vector<Assumption>& out) {
  const bool windows =
      std::any_of(spec.caches.begin(), spec.caches.end(), [](const KvLayout& k) { return k.window > 0; });
  const bool shares =
      std::any_of(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& l) { return l.shares_cache >= 0; });
  if (windows)
    out.push_back(
        {"windows",
         "a layer with a sliding window keeps its window and no more; servers whose cache manager for hybrid models "
         "is off keep every position",
         ""});
  if (shares) out.push_back({"sharing", "a layer that reads another layer's cache keeps none of its own", ""});
  if (std::ranges::any_of(spec.layers, [](const LayerSpec& l) { return l.index_row_bytes > 0; }))
    out.push_back({"indexer",
                   "beside its cache a layer with an indexer keeps the indexer's keys, in one form whatever the format "
                   "of the cache is",
                   ""});
  if (c.at(KvFormat::BF16).cost().state_bytes > 0)
    out.push_back({"state",
                   std::to_string(c.deployment.state.slots) + " states for each sequence, in " +
                       title_of(c.deployment.state.format) +
                       " with windows of convolutions in 16 bits, whatever the format of the KV cache; in FP8 and "
                       "INT8, which no release of vLLM or SGLang has, a byte and for each row of a head a scale of 32 "
                       "bits",
                   "--server, --state-dtype, --state-slots"});
  if (c.has(KvFormat::NVFP4))
    out.push_back({"nvfp4",
                   "4 bits and a scale of 8 bits for every 16 elements of a head; few servers have it, and before "
                   "vLLM 0.32 Blackwell alone",
                   ""});
  if (c.has(KvFormat::INT4))
    out.push_back({"int4",
                   "4 bits and a scale of 32 bits for each token and head of keys and of values: vLLM's "
                   "int4_per_token_head",
                   ""});
}

void add_drafts(const ModelSpec& spec, std::vector<Assumption>& out) {
  if (spec.n_mtp_layers > 0) {
    const int64_t window = spec.caches.back().window;
    const std::string kept =
        window > 0 ? "the last " + std::to_string(window) + " tokens of a sequence" : "every token, too";
    out.push_back({"drafts",
                   "the server drafts tokens with the MTP layer, which keeps " + kept +
                       ", in the format of the others; rows of tokens that are drafted and not yet verified are not "
                       "counted",
                   "--mtp"});
  } else {
    out.push_back({"drafts", "the server drafts no tokens: no cache of an MTP layer or another draft head is counted",
                   spec.mtp_names.empty() ? "" : "--mtp"});
  }
}

}  // namespace

std::vector<Assumption> assumptions_of(const ModelSpec& spec, const Capacity& c) {
  std::vector<Assumption> out;
  add_machine(spec, c, out);
  add_cache(spec, c, out);
  out.push_back(
      {"pages",
       "nothing is lost to pages that are not full, and no prefix is shared; every sequence has its full length", ""});
  add_drafts(spec, out);
  out.push_back({"extras",
                 "no draft model, no adapters; layers that attend within chunks (Llama 4) "
                 "keep all positions",
                 ""});
  return out;
}

}  // namespace kvcal
