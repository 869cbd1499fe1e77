// A fingerprint of the weights, cheap enough to compute in every run.
#pragma once

#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace kvcal {

/// SHA-256 over the named tensors in name order, each as
///   name '\0' dtype ' ' shape '\n' first min(n, 4096) bytes, last min(n, 4096) bytes
/// with n the tensor's bytes, so that neither sharding nor the order of names matters. KV-cache scale tensors are left
/// out: an export that only adds them keeps the fingerprint. The tensors of a fold's record (fold_mark.h), where there
/// is one, follow as canonical JSON. Throws Error for an unknown name.
std::string weights_fingerprint(const Checkpoint& checkpoint, std::span<const std::string> names);

}  // namespace kvcal
