//! A chat template, compiled: Jinja as Hugging Face's `apply_chat_template` runs it.
//!
//! Invariants: a template reads no file, has no clock and no random numbers. Its fuel bounds the time and the memory of
//! a rendering. What `{% generation %}` blocks write is found again by two characters that no text has.

use std::ops::Range;
use std::sync::LazyLock;

use forebay_core::{Error, ErrorKind, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, ErrorKind as TemplateError, escape_formatter};
use regex::Regex;

use super::methods;
use super::python::{Day, float, tojson};

/// Steps of a template for one rendering; 64 bytes that it makes count as one.
const FUEL: u64 = 4_000_000;
/// The largest template, in bytes. The longest published one has about 20 kB.
const TEMPLATE_MAX: usize = 1 << 20;
const NAME: &str = "chat template";
const FILTER: &str = "forebay_generation";
/// Characters of Unicode that are none: no text has them.
const BEGIN: char = '\u{fdd0}';
const END: char = '\u{fdd1}';

static GENERATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}").ok());

pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    marks_answers: bool,
}

/// A rendered chat, and the parts that `{% generation %}` blocks wrote, in bytes.
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) answers: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Compiles a template; `today` is the date that it sees.
    ///
    /// # Errors
    /// Invalid, with the line, when it is no template.
    pub(super) fn new(source: &str, today: Option<Day>) -> Result<Self> {
        if source.len() > TEMPLATE_MAX {
            return Err(
                Error::invalid(format!("chat: the template has {} bytes", source.len())).with("bound", TEMPLATE_MAX)
            );
        }
        let generation = GENERATION.as_ref().ok_or_else(|| Error::internal("no pattern for generation blocks"))?;
        let marks_answers = generation.is_match(source);
        let source = generation.replace_all(source, |tag: &regex::Captures<'_>| match tag.get(2) {
            None => format!("{{%{} filter {FILTER} {}%}}", &tag[1], &tag[3]),
            Some(_) => format!("{{%{} endfilter {}%}}", &tag[1], &tag[3]),
        });
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| failed(&e, ErrorKind::Internal))?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(methods::call);
        environment.set_formatter(|to, state, value| match f64::try_from(value.clone()) {
            Ok(number) if value.kind() == ValueKind::Number && !value.is_integer() && number.is_finite() => {
                to.write_str(&float(number)).map_err(minijinja::Error::from)
            }
            _ => escape_formatter(to, state, value),
        });
        environment.add_filter("tojson", tojson);
        environment.add_filter(FILTER, |text: String| format!("{BEGIN}{text}{END}"));
        environment.add_test("sequence", |value: &Value| {
            matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
        });
        environment.add_function(
            "raise_exception",
            |message: String| -> std::result::Result<Value, minijinja::Error> {
                Err(minijinja::Error::new(TemplateError::InvalidOperation, message))
            },
        );
        if let Some(day) = today {
            environment.add_function("strftime_now", move |format: String| day.strftime(&format));
        }
        let compiled = environment.add_template_owned(NAME, source.into_owned());
        compiled.map_err(|e| failed(&e, ErrorKind::Invalid))?;
        Ok(Self { environment, marks_answers })
    }

    /// Says whether the template marks the assistant's answers by `{% generation %}`.
    pub(super) fn marks_answers(&self) -> bool {
        self.marks_answers
    }

    /// Renders a chat.
    ///
    /// # Errors
    /// Data, with the line of the template, when it refuses the chat, cannot render it, takes too many steps or makes
    /// too much text.
    pub(super) fn render(&self, variables: Value) -> Result<Rendered> {
        let template = self.environment.get_template(NAME).map_err(|e| failed(&e, ErrorKind::Internal))?;
        let text = template.render(variables).map_err(|e| failed(&e, ErrorKind::Data))?;
        Ok(if self.marks_answers { unmarked(&text) } else { Rendered { text, answers: Vec::new() } })
    }
}

/// Says whether a text has one of the characters that mark answers, also as an escape of JSON.
pub(super) fn has_marks(json: &str) -> bool {
    let escaped = |mark: &str| json.as_bytes().windows(mark.len()).any(|w| w.eq_ignore_ascii_case(mark.as_bytes()));
    json.contains([BEGIN, END]) || (json.contains("\\u") && (escaped("\\ufdd0") || escaped("\\ufdd1")))
}

/// Takes the marks out of a text.
fn unmarked(marked: &str) -> Rendered {
    let mut rendered = Rendered { text: String::with_capacity(marked.len()), answers: Vec::new() };
    let mut open = Vec::new();
    for piece in marked.split_inclusive([BEGIN, END]) {
        let text = piece.trim_end_matches([BEGIN, END]);
        rendered.text.push_str(text);
        match piece[text.len()..].chars().next() {
            Some(BEGIN) => open.push(rendered.text.len()),
            Some(_) => rendered.answers.extend(open.pop().map(|from| from..rendered.text.len())),
            None => {}
        }
    }
    rendered
}

/// Returns the error of a template as one of the pipeline.
fn failed(error: &minijinja::Error, kind: ErrorKind) -> Error {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let at = |error: Error, line: Option<usize>| match line {
        Some(line) => error.with("template line", line),
        None => error,
    };
    match error.kind() {
        TemplateError::OutOfFuel => {
            at(Error::new(kind, format!("chat: the template does not end within {FUEL} steps")), error.line()).hint(
                "64 bytes of text that the template makes count as a step; look for a loop, or leave out longer chats",
            )
        }
        TemplateError::UnknownFunction if message.contains("strftime_now") => {
            at(Error::new(kind, "chat: the template asks for today's date"), error.line())
                .hint("name a day: date=\"2024-07-26\"; then every run makes the same text")
        }
        _ => at(Error::new(kind, format!("chat: the template fails: {message}")), error.line()),
    }
}
