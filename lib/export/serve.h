// What an export prints: shell commands to serve it, and how to inspect the scales that a server really uses.
#pragma once

#include <string>

#include "export/exporter.h"

namespace kvcal {

/// A path or argument as a shell reads it: in single quotes where it has more than plain characters,
/// as $'...' where a terminal would not show it as it is.
std::string shell_word(const std::string& text);

/// "the plug-in vllm-kv-cache-scales, which comes with kvcal, reads the scale file itself: vllm serve ..."
std::string plugin_advice(const ServerSupport& support, const ExportInput& input);

/// "; or 'kvcal fold ...' puts them into the weights", behind why nothing loads; of a folded folder what is right for
/// it. "" where the server has other ways or none, and where no weights can take powers of two.
std::string fold_advice(const ServerSupport& support, const ExportInput& input);

std::string vllm_command(const ExportInput& input, const std::string& kv_cache_dtype);
std::string sglang_command(const std::string& model, const std::string& kv_cache_dtype);

/// Python that prints the scales of every attention layer of the server's own objects, after loading.
std::string vllm_snippet(const ExportInput& input, const std::string& kv_cache_dtype);
std::string sglang_snippet();

}  // namespace kvcal
