//! The report of an executable as JSON: the costs of its ops, and the content and hits of its caches.

use serde_json::{Map, Value};

use super::Executable;
use crate::cached::describe;

impl Executable {
    /// Returns a JSON object. `ops` is always present, with the costs of the ops that ran in this process. `cache` is
    /// about `cache()` and `autocache()`, `source` about the page cache of remote files; each is omitted where the
    /// pipeline or this process has none.
    pub fn stats(&self) -> String {
        let mut stats = Map::new();
        let mut ops = self.meter.describe(&self.stages);
        for part in &self.parts {
            if let (Value::Array(all), Value::Array(own)) = (&mut ops, part.meter.describe(&part.stages)) {
                all.extend(own);
            }
        }
        stats.insert("ops".to_owned(), ops);
        stats.extend(self.row_cache().map(|cache| ("cache".to_owned(), cache)));
        stats.extend(self.page_cache());
        Value::Object(stats).to_string()
    }

    /// Returns the caching part, as a worker reports it for a job: the members of `cache`, and `source` beside them.
    /// `None` where nothing is cached.
    pub fn caching(&self) -> Option<String> {
        let (rows, pages) = (self.row_cache(), self.page_cache());
        if rows.is_none() && pages.is_none() {
            return None;
        }
        let mut members = match rows {
            Some(Value::Object(rows)) => rows,
            _ => Map::new(),
        };
        members.extend(pages);
        Some(Value::Object(members).to_string())
    }

    fn page_cache(&self) -> Option<(String, Value)> {
        self.page_cached.as_ref().map(|source| ("source".to_owned(), source.describe()))
    }

    fn row_cache(&self) -> Option<Value> {
        let context = self.environment.cache_context.as_ref()?;
        describe::row_cache(context, self.autocache.as_ref(), self.variant.prefix.as_ref())
    }
}
