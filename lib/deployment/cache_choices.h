// Which values of --kv-cache-dtype, and which spelling of the attention backend, a server's version takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "deployment/engine.h"
#include "deployment/trait.h"

namespace kvcal {

/// Whether the server has the type: without a version whether its newest one has. Unknown for other servers than vLLM
/// and SGLang, and between versions that were looked at.
Trait has_cache_type(Engine server, const std::optional<EngineVersion>& version, std::string_view type);

/// Whether this version refuses the type later on, although it is a choice of the option.
bool refuses_choice(Engine server, const std::optional<EngineVersion>& version, std::string_view type);

/// Of a name that the server does not take and another server does: what the backend is called here; "" where it has no
/// such backend. vLLM takes its own in small letters, too.
std::optional<std::string_view> backend_of_another(Engine server, std::string_view name);

/// "--attention-backend TRITON_ATTN", or what vLLM had before that option; "" where the server has no backend of this
/// name: vLLM spells them in capitals, SGLang does not.
std::string backend_option(Engine server, const std::optional<EngineVersion>& version, const std::string& name);

}  // namespace kvcal
