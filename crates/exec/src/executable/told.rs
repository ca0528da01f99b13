//! What an executable says of itself: what its ops cost, what is kept and what was found, as JSON.

use serde_json::{Map, Value, json};

use super::Executable;
use crate::prefix::Prefix;

impl Executable {
    /// Says what is kept of the pipeline in this process and why, and what was found: a JSON object. Under `cache` of `cache()` and
    /// `autocache()`, under `source` of the bytes of remote files; without what it does not have, or this process does not keep.
    /// Under `ops`, always, what the ops that ran in this process cost.
    pub fn stats(&self) -> String {
        let mut stats = Map::new();
        stats.insert("ops".to_owned(), self.meter.describe(&self.stages));
        stats.extend(self.rows_kept().map(|cache| ("cache".to_owned(), cache)));
        stats.extend(self.bytes_kept());
        Value::Object(stats).to_string()
    }

    /// Says the same as a worker tells it of a job: what is under `cache` there, and `source` beside it. `None` where nothing is
    /// kept.
    pub fn caching(&self) -> Option<String> {
        let (rows, bytes) = (self.rows_kept(), self.bytes_kept());
        if rows.is_none() && bytes.is_none() {
            return None;
        }
        let mut told = match rows {
            Some(Value::Object(rows)) => rows,
            _ => Map::new(),
        };
        told.extend(bytes);
        Some(Value::Object(told).to_string())
    }

    fn bytes_kept(&self) -> Option<(String, Value)> {
        self.near.as_ref().map(|near| ("source".to_owned(), near.describe()))
    }

    fn rows_kept(&self) -> Option<Value> {
        let keeping = self.environment.keeping.as_ref()?;
        let always = |prefix: &Prefix| json!({"kept": prefix.what(), "why": "cache() is written there", "rows": prefix.describe(keeping)});
        match &self.auto {
            Some(auto) => Some(auto.describe()),
            None => self.way.prefix.as_ref().map(always),
        }
    }
}
