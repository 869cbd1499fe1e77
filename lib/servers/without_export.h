// How scales reach a class for which export refuses: by a plug-in, or in the weights.
#pragma once

#include <string>
#include <vector>

#include "servers/server_support.h"

namespace kvcal {

/// What the table says of an export: a checkpoint without a quantization_config gets one of compressed-tensors. Throws
/// Error for an architecture without a line.
ServerSupport support_of_export(ServerKind server, std::string_view architecture, KvCarrier carrier);

/// The plug-ins of these servers, and kvcal fold where the class may be folded; "" where there is neither.
std::string way_without_export(const std::vector<ServerSupport>& supports, bool may_fold);

}  // namespace kvcal
