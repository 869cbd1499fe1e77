// Reads what an encoder made of a prompt's images.
#pragma once

#include <filesystem>
#include <span>

#include "model/architecture.h"
#include "model/batch.h"

namespace kvcal {

/// A safetensors file with the tensors
///   embeddings    [n, hidden]         BF16, F16 or F32: in place of the n placeholder tokens, in order
///   positions     [n_axes, n_tokens]  I32 or I64: of every token of the prompt, for RoPE (1 or 3 axes)
///   deepstack.0.. [n, hidden]         as many as the model adds to its residual stream
/// for the prompt `ids`. Throws Error, beginning with the path, when the model takes no such rows, something is
/// missing, too much, of another type or shape, or the placeholders are not n.
std::shared_ptr<const EncoderRows> read_encoder_file(const std::filesystem::path& path, std::span<const int32_t> ids,
                                                     const ModelSpec& spec);

}  // namespace kvcal
