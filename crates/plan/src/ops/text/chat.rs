//! Renders chats by a template and converts them to token ids: `chat`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{list_of, tokens};
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};
use crate::source::BlobId;

/// Nanoseconds for a byte of messages: rendering and tokenizing.
const BYTE_NS: f64 = 250.0;

/// The parts of a chat that a model learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learn {
    /// The assistant's answers.
    Assistant,
    /// The assistant's last answer.
    Last,
    /// All tokens.
    All,
}

/// Renders chats by a template and converts them to token ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// The column of messages: JSON text of a list of objects.
    pub column: String,
    /// The column of ids: `int32[?]`.
    pub output: String,
    /// The column of labels, if any: the ids that are learned, and [`Chat::IGNORED`]; `int32[?]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// The column that marks the ids that are learned with 1, if any: `int8[?]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// The column of the rendered text, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The column of tools, if any: JSON text of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Which ids are learned.
    pub learn: Learn,
    /// Whether the text ends with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// The most ids of a chat; the rest is cut off. `None` keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The template, its variables and the tokenizer, as JSON.
    pub chat: BlobId,
}

impl Chat {
    /// The label of an id that is not learned.
    pub const IGNORED: i32 = -100;

    /// Returns whether it needs to know which ids are learned.
    pub fn marks(&self) -> bool {
        self.labels.is_some() || self.mask.is_some()
    }

    fn reads(&self) -> Vec<String> {
        [&self.column].into_iter().chain(&self.tools).cloned().collect()
    }

    fn writes(&self) -> Vec<String> {
        [&self.output]
            .into_iter()
            .chain([&self.labels, &self.mask, &self.text].into_iter().flatten())
            .cloned()
            .collect()
    }
}

impl OpSpec for Chat {
    fn about(&self) -> About {
        About { name: "chat", class: Class::RowWise, is_random: false }
    }

    /// This check does not read the template.
    fn apply(&self, input: &Schema) -> Result<Schema> {
        for column in self.reads() {
            let kind = &input.field(&column)?.kind;
            if *kind != Kind::Utf8 {
                return Err(Error::invalid(format!("chat: column {column:?} is {kind}, not the JSON text of a list"))
                    .hint("from_jsonl, from_parquet and from_hf read a list of objects as its JSON text"));
            }
        }
        if let Some(length) = self.max_length {
            tokens("chat", "max_length", length)?;
        }
        let writes = self.writes();
        if let Some(twice) = (1..writes.len()).find(|&i| writes[..i].contains(&writes[i])) {
            let name = &writes[twice];
            return Err(Error::invalid(format!("chat: two of its columns are named {name:?}"))
                .hint("give output=, labels=, mask= and text= different names"));
        }
        let mut schema = input.with(Field::new(&self.output, list_of(DType::Int32)));
        for (name, kind) in
            [(&self.labels, list_of(DType::Int32)), (&self.mask, list_of(DType::Int8)), (&self.text, Kind::Utf8)]
        {
            if let Some(name) = name {
                schema = schema.with(Field::new(name, kind));
            }
        }
        Ok(schema)
    }

    fn arguments(&self) -> String {
        let named = [("labels", &self.labels), ("mask", &self.mask), ("text", &self.text), ("tools", &self.tools)];
        let named = named.iter().filter_map(|(name, column)| Some(format!(", {name}={}", column.as_ref()?)));
        let learn = match self.learn {
            Learn::Last if self.marks() => ", learn=last",
            Learn::All if self.marks() => ", learn=all",
            _ => "",
        };
        let prompt = if self.add_generation_prompt { ", add_generation_prompt=True" } else { "" };
        let cut = self.max_length.map_or(String::new(), |n| format!(", max_length={n}"));
        let named: String = named.collect();
        format!("{}, {:.12}, output={}{named}{learn}{prompt}{cut}", self.column, self.chat.0, self.output)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { reads: self.reads(), writes: self.writes(), may_fail: true, ..Access::default() })
    }

    fn blob(&self) -> Option<&BlobId> {
        Some(&self.chat)
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read * BYTE_NS
    }
}
