// A line for each architecture: what its goldens are, and what servers do with its scales.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "documents/tables.h"
#include "model/architecture.h"
#include "model/towers/towers.h"
#include "servers/server_support.h"

namespace kvcal::documents {
namespace {

namespace fs = std::filesystem;

/// What the goldens of an architecture have in them.
struct Shown {
  int goldens = 0;
  bool plain = false, latent = false, experts = false, shares_caches = false, pictures = false;
  std::set<std::string> recurrent;  // kinds of layers that have a state
};

void add_golden(const fs::path& folder, std::map<std::string, Shown, std::less<>>& by_name) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  Shown& shown = by_name[std::string(find_architecture(checkpoint.config()).name)];
  const std::unique_ptr<Model> model = parse_model(checkpoint.config());
  const ModelSpec& spec = model->spec();
  ++shown.goldens;
  for (const KvLayout& c : spec.caches) (c.is_mla() ? shown.latent : shown.plain) = true;
  for (const LayerSpec& l : spec.layers) {
    shown.shares_caches |= l.shares_cache >= 0;
    if (l.state_bytes > 0)
      shown.recurrent.insert(l.kind == LayerKind::Attention ? "beside attention" : std::string(name_of(l.kind)));
  }
  for (const std::string& name : checkpoint.names())
    shown.experts |= name.find(".experts.") != std::string::npos || name.find("_moe.") != std::string::npos;
}

std::map<std::string, Shown, std::less<>> read_goldens() {
  std::map<std::string, Shown, std::less<>> by_name;
  const fs::path source = KVCAL_SOURCE_DIR;
  for (const auto& entry : fs::directory_iterator(source / "tests/arch/golden"))
    if (fs::exists(entry.path() / "config.json")) add_golden(entry.path(), by_name);
  // Prompts with pictures have their own config where the weights are those of the text model.
  for (const auto& entry : fs::directory_iterator(source / "tests/arch/embeddings")) {
    if (!entry.is_directory()) continue;
    const fs::path own = entry.path() / "config.json";
    const std::string model = get_string(read_json_file(entry.path() / "golden.json"), "model");
    const Json config = read_json_file(fs::exists(own) ? own : source / model / "config.json");
    by_name[std::string(find_architecture(config).name)].pictures = true;
  }
  return by_name;
}

std::string words(const std::set<std::string>& kinds) {
  std::string text;
  for (std::string kind : kinds) {
    std::ranges::replace(kind, '_', ' ');
    text += (text.empty() ? "" : ", ") + kind;
  }
  return text;
}

std::string cache_of(const Shown& shown) {
  if (shown.goldens == 0) return "";
  if (shown.latent) return shown.plain ? "K, V or latent" : "latent";
  return shown.shares_caches ? "K, V; shared" : "K, V";
}

std::string images_of(std::string_view architecture, const Shown& shown) {
  if (runs_tower(architecture)) return "pictures";
  return shown.pictures ? "embeddings" : "";
}

/// Whether a checkpoint's scales reach the cache, in a model with weights of 16 bits.
std::string loaded_by(ServerKind kind, std::string_view architecture) {
  const ServerSupport s = server_support(verified_server(kind), architecture, KvCarrier::CompressedTensors);
  if (s.loads) return "yes";
  if (!s.served) return "not served";
  return s.plugin.empty() ? "no" : "plug-in";
}

}  // namespace

std::string table_of_models() {
  const auto goldens = read_goldens();
  std::string text = "| class in `config.json` | goldens | cache | recurrent layers | experts | images | " +
                     str(verified_server(ServerKind::Vllm)) + " | " + str(verified_server(ServerKind::Sglang)) +
                     " |\n|---|---|---|---|---|---|---|---|\n";
  for (const Architecture& a : architectures()) {
    const auto found = goldens.find(a.name);
    const Shown shown = found == goldens.end() ? Shown{} : found->second;
    text += "| `" + std::string(a.name) + "` | " +
            (shown.goldens ? std::to_string(shown.goldens) : "of another class") + " | " + cache_of(shown) + " | " +
            words(shown.recurrent) + " | " + (shown.experts ? "yes" : "") + " | " + images_of(a.name, shown) + " | " +
            loaded_by(ServerKind::Vllm, a.name) + " | " + loaded_by(ServerKind::Sglang, a.name) + " |\n";
  }
  return text;
}

}  // namespace kvcal::documents
