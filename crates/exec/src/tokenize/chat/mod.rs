//! Chats to token ids: the op `chat` over a chunk.
//!
//! - `template`: a compiled chat template; `methods`: the methods of values that it calls; `python`: how Python writes
//!   values and dates
//! - `answers`: which parts of a rendered chat the assistant wrote
//!
//! Invariant: text and ids are those of `apply_chat_template` of Hugging Face's `transformers` for the same template,
//! variables and messages.

mod answers;
mod methods;
mod python;
mod template;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, LargeStringArray};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Int32Lists, Schema, VariableTensorBuilder};
use forebay_io::Blobs;
use forebay_plan::{Chat, Learn, Op, Step};
use minijinja::value::{Value, ValueKind};
use serde::Deserialize;

use super::engine::{Engine, Scratch};
use python::Day;
use template::{ChatTemplate, Rendered, has_marks};

/// The names under which messages have their reasoning; a template may read another one than the message has.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The blob of the op.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    template: String,
    /// Special tokens and the user's own variables, as the template sees them.
    variables: BTreeMap<String, Value>,
    /// The day that `strftime_now` formats.
    date: Option<String>,
    /// A `tokenizer.json`.
    tokenizer: String,
}

/// The template, its variables and the tokenizer.
struct Reader {
    template: ChatTemplate,
    variables: BTreeMap<String, Value>,
    engine: Arc<Engine>,
    special: Vec<String>,
}

impl Reader {
    fn open(op: &Chat, blobs: &dyn Blobs) -> Result<Self> {
        let spec: Spec = serde_json::from_slice(&blobs.get(&op.chat)?)
            .map_err(|e| Error::invalid(format!("chat: the template's blob cannot be read: {e}")))?;
        let today = match &spec.date {
            Some(date) => Some(Day::parse(date).ok_or_else(|| {
                Error::invalid(format!("chat: date={date:?} is no day")).hint("write it as date=\"2024-07-26\"")
            })?),
            None => None,
        };
        let template = ChatTemplate::new(&spec.template, today)?;
        let engine = super::engine(&op.chat, || Ok(spec.tokenizer))?;
        let special = engine.special_tokens();
        Ok(Self { template, variables: spec.variables, engine, special })
    }

    fn render(&self, messages: &[Value], tools: &Value, prompt: bool) -> Result<Rendered> {
        let mut variables = self.variables.clone();
        variables.insert("messages".to_owned(), messages.iter().cloned().collect());
        if !tools.is_undefined() {
            variables.insert("tools".to_owned(), tools.clone());
        }
        variables.insert("add_generation_prompt".to_owned(), Value::from(prompt));
        for name in ["tools", "documents"] {
            variables.entry(name.to_owned()).or_insert_with(|| Value::from(()));
        }
        self.template.render(Value::from(variables))
    }
}

/// Checks the template and the tokenizer of an op.
pub(super) fn check(op: &Chat, blobs: &dyn Blobs) -> Result<()> {
    Reader::open(op, blobs).map(drop)
}

/// The op at its place.
pub(crate) struct ChatOp {
    step: Step,
    op: Chat,
    reader: Reader,
    /// Taken for a chunk, and returned: as many as threads ever ran in parallel.
    scratches: Mutex<Vec<Scratch>>,
}

/// The columns that are made, row after row.
#[derive(Default)]
struct Made {
    ids: Vec<i32>,
    /// Whether each id is learned.
    learned: Vec<bool>,
    ends: Vec<i32>,
    texts: Vec<String>,
}

impl ChatOp {
    pub(crate) fn new(step: &Step, blobs: &dyn Blobs) -> Result<Self> {
        let Op::Chat(op) = &step.node.op else { return Err(Error::internal("no chat")) };
        let reader = Reader::open(op, blobs).map_err(|e| step.node.blame(e))?;
        Ok(Self { step: step.clone(), op: op.clone(), reader, scratches: Mutex::default() })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    pub(crate) fn run(&self, chunk: &Chunk) -> Result<Chunk> {
        let scratches = || self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = scratches().pop();
        let mut scratch = kept.unwrap_or_default();
        let made = self.made(chunk, &mut scratch).map_err(|e| self.step.node.blame(e))?;
        scratches().push(scratch);
        self.columns(chunk, made)
    }

    fn made(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<Made> {
        let messages = texts(chunk, &self.op.column)?;
        let tools = self.op.tools.as_ref().map(|tools| texts(chunk, tools)).transpose()?;
        let mut made = Made::default();
        for row in 0..messages.len() {
            let tools = tools.filter(|tools| !tools.is_null(row)).map(|tools| tools.value(row));
            let messages = (!messages.is_null(row)).then(|| messages.value(row));
            self.row(messages, tools, scratch, &mut made).map_err(|e| e.with("sample", chunk.ids()[row].sample))?;
        }
        Ok(made)
    }

    /// Appends one row.
    fn row(&self, messages: Option<&str>, tools: Option<&str>, scratch: &mut Scratch, made: &mut Made) -> Result<()> {
        let column = &self.op.column;
        let Some(messages) = messages else {
            return Err(Error::data(format!("chat: the messages of column {column:?} are missing"))
                .hint(format!("leave such rows out first: .filter(~fb.col({column:?}).is_null())")));
        };
        if self.reader.template.marks_answers() && [Some(messages), tools].into_iter().flatten().any(has_marks) {
            return Err(Error::data("chat: a message has U+FDD0 or U+FDD1, which mark answers and are no characters")
                .hint("remove them from the text"));
        }
        let messages = read_messages(messages, column)?;
        let tools = tools.map_or(Ok(Value::UNDEFINED), read_tools)?;
        let chat = self.reader.render(&messages, &tools, self.op.add_generation_prompt)?;
        self.tokenize(&chat, &messages, &tools, scratch, made)?;
        if self.op.text.is_some() {
            made.texts.push(chat.text);
        }
        Ok(())
    }

    /// Appends the ids of a rendered chat, and which of them are learned.
    fn tokenize(
        &self,
        chat: &Rendered,
        messages: &[Value],
        tools: &Value,
        scratch: &mut Scratch,
        made: &mut Made,
    ) -> Result<()> {
        let engine = &self.reader.engine;
        let failed = |e| Error::data(format!("chat: the text cannot be tokenized: {e}"));
        let start = made.ids.len();
        if !self.op.marks() || self.op.learn == Learn::All {
            engine.plain(&chat.text, scratch, &mut made.ids).map_err(failed)?;
            made.learned.resize(made.ids.len(), true);
        } else {
            let mut places = Vec::new();
            engine.placed(&chat.text, scratch, &mut made.ids, &mut places).map_err(failed)?;
            let answers = self.answers(chat, messages, tools)?;
            made.learned.extend(overlaps(&places, &answers));
        }
        if let Some(length) = self.op.max_length {
            made.ids.truncate(start + length);
            made.learned.truncate(start + length);
        }
        made.ends.push(i32::try_from(made.ids.len()).map_err(|_| {
            Error::new(ErrorKind::Exhausted, "more than 2^31 tokens in one run of rows").hint("give shorter chats")
        })?);
        Ok(())
    }

    fn answers(&self, chat: &Rendered, messages: &[Value], tools: &Value) -> Result<Vec<Range<usize>>> {
        if !self.reader.template.marks_answers() {
            let render = |count: usize, prompt| self.reader.render(&messages[..count], tools, prompt);
            return answers::by_beginnings(&chat.text, messages, self.op.learn, &self.reader.special, &render);
        }
        let last = chat.answers.len().saturating_sub(1);
        let from = if self.op.learn == Learn::Last { last } else { 0 };
        Ok(chat.answers[from..].to_vec())
    }

    fn columns(&self, chunk: &Chunk, made: Made) -> Result<Chunk> {
        let Made { ids, learned, ends, texts } = made;
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        if let Some(labels) = &self.op.labels {
            let label = |(id, learned): (&i32, &bool)| if *learned { *id } else { Chat::IGNORED };
            columns.push((labels, Int32Lists::column(ids.iter().zip(&learned).map(label).collect(), &ends)?));
        }
        if let Some(mask) = &self.op.mask {
            let mut lists = VariableTensorBuilder::new(DType::Int8, 1);
            let mut from = 0;
            for end in &ends {
                let marks: Vec<u8> = learned[from..*end as usize].iter().map(|learned| u8::from(*learned)).collect();
                lists.push(&[marks.len()], &marks)?;
                from = *end as usize;
            }
            columns.push((mask, lists.finish()?));
        }
        if let Some(text) = &self.op.text {
            columns.push((text, Arc::new(LargeStringArray::from_iter_values(texts))));
        }
        columns.push((&self.op.output, Int32Lists::column(ids, &ends)?));
        let column = |name: &str| match columns.iter().find(|(made, _)| *made == name) {
            Some((_, column)) => Ok(column.clone()),
            None => chunk.column(name).cloned(),
        };
        let all = self.step.schema.fields().iter().map(|field| column(&field.name)).collect::<Result<_>>()?;
        chunk.with_columns(self.step.schema.clone(), all)
    }
}

fn texts<'a>(chunk: &'a Chunk, column: &str) -> Result<&'a LargeStringArray> {
    let texts = chunk.column(column)?.as_any().downcast_ref::<LargeStringArray>();
    texts.ok_or_else(|| Error::internal("a text is a string"))
}

/// Reads messages as `transformers` does: a key without a value is left out, and reasoning has all of its names.
fn read_messages(json: &str, column: &str) -> Result<Vec<Value>> {
    let wrong = |what: String| {
        Error::data(format!("chat: column {column:?} {what}"))
            .hint("each row is a list of objects: [{\"role\": \"user\", \"content\": \"...\"}, ...]")
    };
    let list: Value = serde_json::from_str(json).map_err(|e| wrong(format!("has no JSON text: {e}")))?;
    if list.kind() != ValueKind::Seq {
        return Err(wrong("has no list of messages".to_owned()));
    }
    let iterate = |value: &Value| value.try_iter().map_err(|e| Error::internal(e.to_string()));
    let messages: Vec<Value> = iterate(&list)?.collect();
    if messages.is_empty() {
        return Err(wrong("has a chat without messages".to_owned()));
    }
    let message = |(at, message): (usize, &Value)| {
        if message.kind() != ValueKind::Map {
            return Err(wrong(format!("has a message that is no object: message {at}")));
        }
        let present = |key: Value| {
            let value = message.get_item(&key).unwrap_or_default();
            (!value.is_none()).then_some((key, value))
        };
        let mut pairs: Vec<(Value, Value)> = iterate(message)?.filter_map(present).collect();
        let named =
            |name: &str| pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value.clone());
        if let Some(reasoning) = REASONING.iter().find_map(|name| named(name)) {
            let (thinking, content) = (named("thinking").is_some(), named("reasoning_content").is_some());
            if !thinking {
                pairs.insert(0, (Value::from("thinking"), reasoning.clone()));
            }
            if !content {
                pairs.push((Value::from("reasoning_content"), reasoning));
            }
        }
        Ok(Value::from_pairs(pairs))
    };
    messages.iter().enumerate().map(message).collect()
}

fn read_tools(json: &str) -> Result<Value> {
    let tools: Value =
        serde_json::from_str(json).map_err(|e| Error::data(format!("chat: tools= has no JSON text: {e}")))?;
    match tools.kind() {
        ValueKind::Seq | ValueKind::None => Ok(tools),
        _ => Err(Error::data("chat: tools= has no list of tools").hint("each row is a list of objects, or missing")),
    }
}

/// Says of each id whether a part of it is in an answer. Both are in order.
fn overlaps<'a>(places: &'a [Range<usize>], answers: &'a [Range<usize>]) -> impl Iterator<Item = bool> + 'a {
    let mut next = 0;
    places.iter().map(move |place| {
        while answers.get(next).is_some_and(|answer| place.start >= answer.end) {
            next += 1;
        }
        answers.get(next).is_some_and(|answer| place.end > answer.start)
    })
}
