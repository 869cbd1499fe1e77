#include "documents/tables.h"

#include <array>

#include "base/error.h"

namespace kvcal::documents {

std::span<const Table> tables() {
  static constexpr std::array kTables = {Table{"docs/development.md", "includes", table_of_includes},
                                         Table{"docs/evaluating.md", "attention", table_of_attention},
                                         Table{"docs/models.md", "models", table_of_models},
                                         Table{"docs/models.md", "served classes", table_of_served_classes},
                                         Table{"docs/models.md", "downloads", table_of_downloads},
                                         Table{"docs/models.md", "weight formats", table_of_weight_formats},
                                         Table{"docs/servers.md", "exports", table_of_exports},
                                         Table{"docs/servers.md", "servers", table_of_servers}};
  return kTables;
}

std::string with_tables(std::string_view document, std::string text) {
  for (const Table& table : tables()) {
    if (table.document != document) continue;
    const std::string name = table.name, begin = "<!-- table of " + name + " -->\n",
                      end = "<!-- end of table of " + name + " -->\n";
    const size_t from = text.find(begin), to = text.find(end);
    if (from == std::string::npos || to == std::string::npos || to < from)
      fail(std::string(document) + " does not have the lines " + quoted(begin.substr(0, begin.size() - 1)) + " and " +
           quoted(end.substr(0, end.size() - 1)) + " in this order");
    text.replace(from, to + end.size() - from, begin + table.make() + end);
  }
  return text;
}

}  // namespace kvcal::documents
