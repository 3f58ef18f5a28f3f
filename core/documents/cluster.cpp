#include "core/documents/cluster.h"

#include "cluster.pb.h"
#include "core/base/files.h"
#include "core/documents/cluster_fields.h"

namespace millrace {

Cluster parse_cluster(std::string_view text, std::string_view origin) {
  const text::Path document(origin, ErrorCode::kMalformed);
  documents::Cluster message;
  text::parse_text(text, document, text::cluster_steps(), message);
  Cluster cluster;
  text::Codec<Cluster>::read(message, cluster, document);
  text::Codec<Cluster>::check(cluster, document);
  return cluster;
}

std::string text_of(const Cluster& cluster) {
  documents::Cluster message;
  message.set_version(text::current_version(text::cluster_steps()));
  text::Codec<Cluster>::write(cluster, message);
  return text::print_text(message);
}

Cluster load_cluster(const std::filesystem::path& path) { return parse_cluster(text::read_document(path), path.string()); }

void save(const Cluster& cluster, const std::filesystem::path& path) { write_atomically(path, text_of(cluster)); }

}  // namespace millrace
