#pragma once

// Writes a graph file in GAP's layout: rings of eight vertices with edges in one direction, and vertices without edges.
// The generators do not make such graphs.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace isthmus::apps {

inline void write_rings(const std::string& path, bool weighted) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&](auto value) { file.write(reinterpret_cast<const char*>(&value), sizeof value); };
  constexpr std::int64_t edges = 3000, vertices = 3500;
  write(char{1});
  write(edges);
  write(vertices);
  for (int direction = 0; direction < 2; ++direction) {
    for (std::int64_t v = 0; v <= vertices; ++v) write(std::min(v, edges));
    for (std::int64_t v = 0; v < edges; ++v) {
      write(static_cast<std::int32_t>(v / 8 * 8 + (v + (direction == 0 ? 1 : 7)) % 8));
      if (weighted) write(static_cast<std::int32_t>(1 + v % 7));
    }
  }
}

}  // namespace isthmus::apps
