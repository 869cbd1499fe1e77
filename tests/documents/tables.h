// Tables of documents that are made from the code, its rules and the goldens, so that they cannot say what is not so.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvcal::documents {

/// Between the lines "<!-- table of NAME -->" and "<!-- end of table of NAME -->" of its document.
struct Table {
  const char* document;  // from the top of the tree: "docs/models.md"
  const char* name;
  std::string (*make)();  // Markdown, ending in a newline
};

std::span<const Table> tables();

std::string table_of_attention();
std::string table_of_downloads();
std::string table_of_exports();
std::string table_of_includes();
std::string table_of_models();
std::string table_of_served_classes();
std::string table_of_servers();
std::string table_of_weight_formats();

/// The text of the document with each of its tables as it is made now. Throws Error when a marker is missing.
std::string with_tables(std::string_view document, std::string text);

}  // namespace kvcal::documents
