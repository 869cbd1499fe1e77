// Which values of --kv-cache-dtype, and which spelling of the attention backend, a server's version takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "deployment/engine.h"
#include "servers/gpu.h"
#include "servers/server_support.h"

namespace kvcal {

/// Of SGLang its own, else vLLM's: what tables of both take.
ServerKind kind_in_tables(Engine server);

/// The newest version of vLLM or SGLang that was read: of a later one nothing is known.
EngineVersion newest_known(Engine server);
bool is_newer_than_known(Engine server, const std::optional<EngineVersion>& version);

/// Whether the server has the type: without a version whether its newest one has. Unknown for other servers than vLLM
/// and SGLang, between versions that were looked at, and after them.
Trait has_cache_type(Engine server, const std::optional<EngineVersion>& version, std::string_view type);

/// Whether some version of vLLM or SGLang has it, and it is quantized.
bool is_quantized_choice(std::string_view type);

/// Whether this version refuses the type later on, although it is a choice of the option.
bool refuses_choice(Engine server, const std::optional<EngineVersion>& version, std::string_view type);

/// What a cache of some type is to be served with.
struct CachePlace {
  const Gpu* gpu = nullptr;       // null: not known
  Trait latent = Trait::Unknown;  // MLA
  int64_t head_dim = 0;           // 0: not known
  std::string backend = "";       // of attention, that the command names; "": none
};

/// Why the server has no kernels for a cache of this type there, as "compute capability 10 alone"; "" where it
/// may have, and of a version later than those known. Without a version what is so of every version that has the type.
std::string why_not_served(Engine server, const std::optional<EngineVersion>& version, std::string_view type,
                           const CachePlace& place);

/// Whether a server stores a cache of this type there: by its table of types, and of what versions serve them on.
struct CacheService {
  EngineVersion version;  // the one that is spoken of: the newest where none was given
  Trait served = Trait::Unknown;
  std::string why = "";  // where it does not, or it is not known
};
CacheService cache_service(const NamedEngine& server, std::string_view type, const CachePlace& place);

/// The only attention backend that takes the type; "" where several may, or where the server goes back to it from
/// another that the command names. `gpu`: null: not known.
std::string_view only_backend(Engine server, const std::optional<EngineVersion>& version, std::string_view type,
                              const Gpu* gpu);

/// Whether vLLM's FLASHINFER takes heads of so many channels; without a version whether the newest does.
bool flashinfer_takes_heads(const std::optional<EngineVersion>& version, int64_t width);

/// Of a name that the server does not take and another server does: what the backend is called here; "" where it has no
/// such backend. vLLM takes its own in small letters, too.
std::optional<std::string_view> backend_of_another(Engine server, std::string_view name);

/// "--attention-backend TRITON_ATTN", or what vLLM had before that option; "" where the server has no backend of this
/// name: vLLM spells them in capitals, SGLang does not.
std::string backend_option(Engine server, const std::optional<EngineVersion>& version, const std::string& name);

}  // namespace kvcal
