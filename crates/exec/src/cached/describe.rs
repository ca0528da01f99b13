//! The cached rows of a prefix by tier, and the results of lookups, as JSON.

use forebay_cache::{DiskStats, PrefixStats, StoreStats};
use serde_json::{Value, json};

use crate::cached::autocache::AutoCache;
use crate::cached::context::CacheContext;
use crate::cached::prefix::Prefix;

/// Returns as JSON the cached op and the reason, for `autocache()` or the prefix of `cache()`; `None` with neither.
pub(crate) fn row_cache(
    context: &CacheContext,
    autocache: Option<&AutoCache>,
    prefix: Option<&Prefix>,
) -> Option<Value> {
    let always = |prefix: &Prefix| json!({"kept": prefix.title(), "why": "cache() is written there", "rows": prefix.describe(context)});
    autocache.map(AutoCache::describe).or_else(|| prefix.map(always))
}

impl Prefix {
    /// Returns how many of its rows each tier keeps, and where lookups found rows.
    pub(crate) fn describe(&self, context: &CacheContext) -> Value {
        let stats = context.cache.stats();
        let Some(own) = stats.prefixes.iter().find(|prefix| prefix.key == self.key()) else { return Value::Null };
        let PrefixStats {
            rows, memory_rows, memory_bytes, disk_rows, peer_rows, store_rows, filtered_out, counts, ..
        } = own;
        json!({
            "all": rows,
            "in_memory": memory_rows,
            "memory_bytes": memory_bytes,
            "on_disk": disk_rows,
            "at_peers": peer_rows,
            "in_store": store_rows,
            "filtered": filtered_out,
            "found_in_memory": counts.memory_hits,
            "found_on_disk": counts.disk_hits,
            "found_at_peers": counts.peer_hits,
            "found_in_store": counts.store_hits,
            "found_filtered": counts.filtered_out_hits,
            "shared": counts.shared,
            "computed": counts.misses,
            "computed_cheaper": counts.cheaper,
            "computed_late": counts.late,
            "unreadable": counts.unreadable,
            "not_stored": counts.store_refused,
            "disk": stats.disk.as_ref().map(of_disk),
            "store": stats.store.as_ref().map(of_store),
        })
    }
}

fn of_disk(disk: &DiskStats) -> Value {
    json!({
        "bytes": disk.tier.bytes,
        "quota": disk.tier.quota,
        "not_written": disk.stopped,
        "corrupt_blocks": disk.corrupt_blocks,
    })
}

fn of_store(store: &StoreStats) -> Value {
    json!({
        "url": store.uri,
        "bytes": store.tier.bytes,
        "not_read": store.unread,
        "not_written": store.unwritten.as_ref().or(store.refused.as_ref()),
        "full": store.full,
        "corrupt_blocks": store.corrupt_blocks,
    })
}
