#pragma once

// Tables next to a record file, for data that are too long for a line of it. The record names each table with its hash.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/measure/results/result.hpp"

namespace isthmus::harness {

/// Facts about a table in a record: an entry of its `tables`.
struct TableFile {
  std::string name;
  std::vector<std::string> columns;
  std::string file;  ///< path relative to the folder of the record file
  std::size_t rows = 0;
  std::string sha256;  ///< hash of the compressed file, 64 hexadecimal digits
};

/// Writes a table as gzip-compressed CSV into the folder named like the record file, with .tables instead of .jsonl.
/// The file's name begins with `stem` and includes its hash, so that no table ever replaces another. It appears whole
/// or not at all. Throws RecordError if it cannot be written, std::invalid_argument if the columns do not form a table.
TableFile write_table(const Table& table, const std::filesystem::path& record_file, std::string_view stem);

}  // namespace isthmus::harness
