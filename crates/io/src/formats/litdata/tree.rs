//! Names the leaves of a sample's tree: `{"image": …, "deep": {"pair": (…, …)}}` has `image`, `deep.pair.0` and
//! `deep.pair.1`.

use forebay_core::{Error, Result};
use serde::Deserialize;

use crate::limits;

/// A tree's node, as PyTorch's `treespec_dumps` writes it.
#[derive(Deserialize)]
struct Node {
    /// `None` for a leaf.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// JSON text; for a dictionary, its keys.
    context: Option<String>,
    children_spec: Vec<Node>,
}

/// Returns the names of the leaves, in order. A leaf that is the whole sample is called `value`.
///
/// # Errors
/// Data when it is not such a tree; Invalid for a tree with nodes of the user's own types.
pub(super) fn names(spec: &str) -> Result<Vec<String>> {
    let wrong = |what: String| Error::data(format!("data_spec is no tree: {what}")).with("fault", "file");
    let (_, root): (u64, Node) = serde_json::from_str(spec).map_err(|e| wrong(e.to_string()))?;
    let mut names = Vec::new();
    root.leaves(String::new(), &mut names)?;
    Ok(names)
}

impl Node {
    fn leaves(&self, name: String, names: &mut Vec<String>) -> Result<()> {
        let Some(kind) = &self.kind else {
            names.push(if name.is_empty() { "value".to_owned() } else { name });
            limits::columns("columns of a chunk", names.len())?;
            return Ok(());
        };
        let keys = self.keys(kind)?;
        if keys.len() != self.children_spec.len() {
            let what = format!("a {kind} of {} keys has {} values", keys.len(), self.children_spec.len());
            return Err(Error::data(what).with("fault", "file"));
        }
        for (key, child) in keys.into_iter().zip(&self.children_spec) {
            let name = if name.is_empty() { key } else { format!("{name}.{key}") };
            if name.len() > limits::NAME_BYTES_MAX {
                return Err(Error::data("the name of a column is too long").with("fault", "file"));
            }
            child.leaves(name, names)?;
        }
        Ok(())
    }

    /// Returns the names of its children.
    fn keys(&self, kind: &str) -> Result<Vec<String>> {
        let context: serde_json::Value =
            self.context.as_deref().and_then(|context| serde_json::from_str(context).ok()).unwrap_or_default();
        let keys = match kind {
            "builtins.dict" | "collections.OrderedDict" => context.as_array(),
            "collections.defaultdict" => context.get("dict_context").and_then(|keys| keys.as_array()),
            "builtins.tuple" | "builtins.list" | "collections.deque" => {
                return Ok((0..self.children_spec.len()).map(|place| place.to_string()).collect());
            }
            other => {
                let hint = "write samples that are dictionaries, lists or tuples";
                return Err(Error::invalid(format!("samples have a {other:?}, which is not read")).hint(hint));
            }
        };
        let text = |key: &serde_json::Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        let keys = keys.ok_or_else(|| Error::data(format!("a {kind} without keys")).with("fault", "file"))?;
        Ok(keys.iter().map(text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_named_by_the_way_to_them() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        assert_eq!(names(&format!("[1, {leaf}]")), Ok(vec!["value".to_owned()]));
        let pair = format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {leaf}]}}"#);
        assert_eq!(names(&format!("[1, {pair}]")), Ok(vec!["0".to_owned(), "1".to_owned()]));
        let dict = |keys: &str| {
            format!(r#"[1, {{"type": "builtins.dict", "context": "{keys}", "children_spec": [{leaf}, {pair}]}}]"#)
        };
        let want = ["a", "7.0", "7.1"].map(str::to_owned).to_vec();
        assert_eq!(names(&dict(r#"[\"a\", 7]"#)), Ok(want));
        for wrong in
            ["", "[1]", "{}", &dict(r#"[\"a\"]"#), &dict("null"), &dict("1").replace("builtins.dict", "my.Own")]
        {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }
}
