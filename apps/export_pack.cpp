#include "export_pack.h"

#include "build_info.h"
#include "export/serve.h"
#include "report/evidence_page.h"
#include "terminal.h"

namespace kvcal {
namespace {

/// "evaluation and page: kvcal evaluate ...; statistics: ..."
std::string lacking(const PackRequest& request, const WrittenPack& written) {
  std::string text;
  std::error_code ignored;
  if (!written.has_evaluation && !std::filesystem::is_regular_file(request.scales, ignored)) {
    text = "evaluation and page: --include an evaluation.json of these scales";
  } else if (!written.has_evaluation) {
    const std::string beside = (request.scales.parent_path() / kPackEvaluation).string();
    text = std::string(written.has_page ? "an evaluation" : "evaluation and page") +
           (written.passed_over.empty() ? "" : " (" + written.passed_over + ")") + ": kvcal evaluate " +
           shell_word(request.model.string()) + " --prompts FILE --scales " + shell_word(request.scales.string()) +
           " -o " + shell_word(beside) + (written.passed_over.empty() ? "" : " --force") +
           ", then this command again, with --force";
  }
  if (!written.has_statistics)
    text += (text.empty() ? "" : "; ") + std::string("statistics: --include those of kvcal calibrate --stats");
  return text;
}

}  // namespace

Exit export_pack(PackRequest request) {
  const std::string version = std::string("kvcal ") + build_info().version;
  request.tool_version = version;
  request.scales = scale_file_of(request.scales);  // of another pack: its evaluation lies beside it
  request.page = [&](const std::string& scales, const std::string& evaluation) {
    return evidence_page(scales, evaluation, version);
  };
  const WrittenPack written = write_pack(request);
  write_line(quoted(request.out.string()), written.has_evaluation ? ": a pack with evaluation and page" : ": a pack",
             "; read back and verified");
  if (const std::string text = lacking(request, written); !text.empty()) write_line("it lacks ", text);
  write_line();
  write_line("next: sign its SHA256SUMS before you publish it; whoever has the checkpoint applies it:");
  write_line("  kvcal apply ", shell_word(request.out.string()), " MODEL ", written.apply_options,
             written.apply_options.empty() ? "" : " ", "-o OUT");
  return Exit::Done;
}

}  // namespace kvcal
