#include "servers/without_export.h"

#include <algorithm>

namespace kvcal {
namespace {

std::string plugin_text(const ServerSupport& s) {
  const std::string how =
      s.server.kind == ServerKind::Vllm
          ? R"(--load-format kv_cache_scales --additional-config '{"kv_cache_scales": "/path/kv-cache-scales.json"}')"
          : "KV_CACHE_SCALES=/path/kv-cache-scales.json before the command";
  return "serve with the plug-in " + s.plugin + " that comes with kvcal (docs/plugins.md): " + how;
}

}  // namespace

ServerSupport support_of_export(ServerKind server, std::string_view architecture, KvCarrier carrier) {
  return server_support(verified_server(server), architecture,
                        carrier == KvCarrier::None ? KvCarrier::CompressedTensors : carrier);
}

std::string way_without_export(const std::vector<ServerSupport>& supports, bool may_fold) {
  std::string text;
  for (const ServerSupport& s : supports)
    if (!s.plugin.empty()) text += (text.empty() ? "" : " or ") + plugin_text(s);
  if (may_fold && std::ranges::any_of(supports, &ServerSupport::served))
    text += std::string(text.empty() ? "" : "; or ") +
            "kvcal fold ORIGINAL --stats run.kvstats -o FOLDED on the model without scales, where its weights allow it";
  return text;
}

}  // namespace kvcal
