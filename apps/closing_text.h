// What `calibrate` says on standard error when it is through.
#pragma once

#include <filesystem>
#include <string>

#include "calibrate/calibrate.h"

namespace kvcal {

/// Prompts, tokens, time and the files' digests: a line.
std::string closing_text(const CalibrationResult& result, const std::string& digests);

/// How activations were rounded, a line.
std::string emulation_text(const std::string& activation_quant, const std::filesystem::path& scales);

}  // namespace kvcal
