// What a file is, told by its content: for the message of a reader that was given another one than it reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvcal {

enum class FileKind : uint8_t {
  Unknown,
  ScaleFile,
  Statistics,
  Evaluation,
  Prompts,
  Config,       // a model's config.json
  ModelFolder,  // a folder with one, or of the Hub's cache
  Weights,      // safetensors that are not ours, or their index
  Gguf,
  Pickle,          // weights in PyTorch's own form
  Adapter,         // its configuration, or a folder with one
  ModelFile,       // its tokenizer, or settings of generation, quantization or pictures
  SglangScales,    // export --to sglang-json
  LightllmScales,  // export --to lightllm
  OrtGenaiScales,  // export --to ort-genai
  PlainScales,     // export --to json
  ExportRecord,    // kvcal-export.json
  FoldRecord,      // kvcal-fold.json
  RunState,        // of --resume: the folder, or a file of it
  ValidateReport,  // JSON or SARIF
  ReportPage,      // kvcal report
  CommandOutput,   // JSON that a verb prints
  Compressed,      // gzip or zstd
  LfsPointer,
};

/// "a scale file", "statistics": what stands behind "is".
std::string_view name_of(FileKind kind);

/// A file that a model consists of.
bool is_of_model(FileKind kind);

/// What a verb writes as its result; not the records that its folders need.
bool is_output(FileKind kind);

/// Of the first bytes of a file, which may be anything, as long as they are; Unknown for what nothing tells.
FileKind kind_of_bytes(std::string_view head);

/// Reads at most the first 4 MiB of a regular file, or looks for a folder's telling files. Unknown for pipes, and for
/// what cannot be read. Never throws.
FileKind kind_of_file(const std::filesystem::path& path);

/// "'s.json' is a scale file, expected statistics (calibrate --stats)", with a way out where there is one.
std::string other_kind(const std::string& name, FileKind kind, std::string_view expected);

/// Throws other_kind() for a file that is of a known kind, but not of this one. `expected` is what is wanted, in words.
void expect_kind(FileKind wanted, std::string_view expected, const std::filesystem::path& path);

/// Runs read(), which reads the file at `path`; when that fails because the file is of another kind, throws an Error
/// that says so.
template <class F>
auto reading(FileKind wanted, std::string_view expected, const std::filesystem::path& path, F&& read)
    -> decltype(read()) {
  try {
    return read();
  } catch (const Error&) {
    expect_kind(wanted, expected, path);
    throw;
  }
}

/// The same for text that was read before; `name` is the file's.
template <class F>
auto parsing(FileKind wanted, std::string_view expected, std::string_view text, const std::string& name, F&& parse)
    -> decltype(parse()) {
  try {
    return parse();
  } catch (const Error&) {
    const FileKind kind = kind_of_bytes(text);
    if (kind == wanted || kind == FileKind::Unknown) throw;
    fail(other_kind(name, kind, expected));
  }
}

// How messages name what is expected, and where it comes from.
constexpr std::string_view kExpectedScales = "a scale file (calibrate -o)";
constexpr std::string_view kExpectedStatistics = "statistics (calibrate --stats)";
constexpr std::string_view kExpectedEvaluation = "an evaluation (evaluate -o)";

/// Why it is not read, and what to do; behind a message about one.
constexpr std::string_view kNoGguf =
    "; GGUF is not read: get the original checkpoint ('hf download ORG/NAME'), whose weights are not quantized yet";

}  // namespace kvcal
