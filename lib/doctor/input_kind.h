// The kind of an input file, by its first bytes: users need not say what it is.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvcal {

enum class InputKind : uint8_t { Log, Command, Config, ScaleFile, Output, Adapter };
std::string_view name_of(InputKind kind);

/// `head` is the beginning of the file, `whole` whether that is all of it. JSON is recognized when it is whole: a
/// config.json by model_type or architectures, scales by their format or kv_cache, an API's answer by choices, a LoRA
/// adapter by target_modules. A short
/// text whose first line that is no comment starts a server, a Python script that starts an engine and a manifest of
/// containers are commands; everything else is a log.
constexpr size_t kHeadBytes = size_t{16} << 20;
InputKind kind_of_input(std::string_view head, bool whole);

}  // namespace kvcal
