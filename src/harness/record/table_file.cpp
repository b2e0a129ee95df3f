#include "harness/record/table_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>

#include "harness/record/record_file.hpp"
#include "workload/sha256.hpp"

namespace isthmus::harness {

namespace {

namespace fs = std::filesystem;

void check(const Table& table) {
  const auto refuse = [&](const char* what) {
    throw std::invalid_argument(fmt::format("the table '{}' {}", table.name, what));
  };
  if (table.name.empty()) refuse("has no name");
  if (table.columns.empty()) refuse("has no columns");
  if (table.columns.size() != table.values.size()) refuse("needs one name per column");
  if (std::set(table.columns.begin(), table.columns.end()).size() != table.columns.size())
    refuse("has two columns with the same name");
  for (const auto& column : table.values) {
    if (column.size() != table.values.front().size()) refuse("has columns of different lengths");
  }
}

std::string quoted(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

std::string csv(const Table& table) {
  std::string text;
  for (std::size_t c = 0; c < table.columns.size(); ++c) text += (c == 0 ? "" : ",") + quoted(table.columns[c]);
  text += '\n';
  const std::string_view unknown = table.columns.size() == 1 ? "\"\"" : "";  // many readers skip an empty line
  for (std::size_t row = 0; row < table.values.front().size(); ++row) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (c > 0) text += ',';
      const double value = table.values[c][row];
      if (std::isfinite(value))
        fmt::format_to(std::back_inserter(text), "{}", value);  // the fewest digits that read back as the same number
      else
        text += unknown;
    }
    text += '\n';
  }
  return text;
}

/// Returns the text in gzip format. The bytes are the same each time, because they include neither a name nor a time.
std::string compressed(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw RecordError("a table could not be compressed, because zlib found no memory; run fewer cases at a time");
  std::string packed;
  std::array<char, 1 << 16> block;
  std::size_t taken = 0;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {  // avail_in has only 32 bits, so long texts are passed in pieces
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));
      stream.avail_in =
          static_cast<uInt>(std::min<std::size_t>(text.size() - taken, std::numeric_limits<uInt>::max() / 2));
      taken += stream.avail_in;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = block.size();
    state = deflate(&stream, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(block.data(), block.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

std::string sha256(const std::string& bytes) {
  workload::Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.digits();
}

/// Returns the caller's part of a file name: the text, up to 100 bytes of it, without characters that are special to a
/// shell or a file system.
std::string file_stem(std::string_view stem) {
  std::string name(stem.empty() ? "table" : stem);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '-';
  }
  return name.substr(0, 100);
}

/// Writes a temporary file next to the target and renames it. Returns 0, or the errno of the failure, after which
/// nothing is left behind.
int write_whole(const fs::path& target, const std::string& bytes) {
  const fs::path aside = target.parent_path() / fmt::format(".{}.{}", target.filename().string(), getpid());
  const int descriptor = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int failure = 0;
  for (std::size_t done = 0; done < bytes.size() && failure == 0;) {
    const ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written >= 0)
      done += static_cast<std::size_t>(written);
    else if (errno != EINTR)
      failure = errno;
  }
  if (failure == 0 && fsync(descriptor) != 0) failure = errno;
  if (close(descriptor) != 0 && failure == 0) failure = errno;  // some file systems report a full disk only here
  if (failure == 0 && rename(aside.c_str(), target.c_str()) != 0) failure = errno;
  if (failure != 0) unlink(aside.c_str());
  return failure;
}

}  // namespace

TableFile write_table(const Table& table, const fs::path& record_file, std::string_view stem) {
  check(table);
  fs::path folder = record_file;
  if (folder.extension() == ".jsonl") folder.replace_extension();
  folder += ".tables";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw RecordError(
        fmt::format("the folder {} for tables cannot be created ({}); choose another record with --record",
                    folder.string(), error.message()));
  const std::string packed = compressed(csv(table));
  const std::string hash = sha256(packed);
  const fs::path path = folder / fmt::format("{}-{}.csv.gz", file_stem(stem), hash.substr(0, 12));
  if (const int failure = write_whole(path, packed); failure != 0)
    throw RecordError(fmt::format("the table {} could not be written ({}); choose another place with --record",
                                  path.string(), std::strerror(failure)));
  return {.name = table.name,
          .columns = table.columns,
          .file = (folder.filename() / path.filename()).string(),
          .rows = table.values.front().size(),
          .sha256 = hash};
}

}  // namespace isthmus::harness
