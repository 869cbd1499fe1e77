// Who may include whom, as tests/rules holds it.

#include "documents/tables.h"
#include "rules/include_table.h"

namespace kvcal::documents {
namespace {

std::string allowed(const rules::IncludeRule& rule) {
  std::string text;
  for (const std::string_view name : rule.may_include)
    text += (text.empty() ? "" : ", ") + (name.ends_with(".h") ? "`" + std::string(name) + "`" : std::string(name));
  return text.empty() ? "nothing of ours" : text;
}

}  // namespace

std::string table_of_includes() {
  std::string text = "| folder | may include, besides itself |\n|---|---|\n";
  for (const rules::IncludeRule& rule : rules::include_table()) {
    const bool is_top = rule.folder == "kernels" || rule.folder == "apps/mpi";
    const std::string folder = (is_top ? "" : "lib/") + std::string(rule.folder),
                      remark = rule.remark.empty() ? "" : " (" + std::string(rule.remark) + ")";
    text += "| `" + folder + "`" + remark + " | " + allowed(rule) + " |\n";
  }
  return text + "| `apps` | anything; nothing includes apps, except tests |\n";
}

}  // namespace kvcal::documents
