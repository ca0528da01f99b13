//! Which parts of a rendered chat the assistant wrote.
//!
//! A template with `{% generation %}` says so itself. For any other, the beginnings of the chat are rendered: what an
//! answer adds to the chat before it, behind the beginning that `add_generation_prompt` writes, is the answer. White
//! space behind the special token that ends it is not part of it.

use std::ops::Range;

use forebay_core::{Error, Result};
use forebay_plan::Learn;
use minijinja::value::Value;

use super::template::Rendered;

/// The most answers of a chat that are found by rendering its beginnings, twice for each.
const ANSWERS_MAX: usize = 512;

/// Renders the first `count` messages of a chat, with the beginning of an answer if the flag is set.
pub(super) type Render<'a> = &'a dyn Fn(usize, bool) -> Result<Rendered>;

/// Finds the answers of `chat` without the help of its template.
///
/// # Errors
/// Data when the template writes a beginning of the chat differently once more messages follow, and as `render`.
pub(super) fn by_beginnings(
    chat: &str,
    messages: &[Value],
    learn: Learn,
    special: &[String],
    render: Render<'_>,
) -> Result<Vec<Range<usize>>> {
    let is_answer = |message: &Value| message.get_attr("role").is_ok_and(|role| role.as_str() == Some("assistant"));
    let mut answers: Vec<usize> = (0..messages.len()).filter(|&i| is_answer(&messages[i])).collect();
    if learn == Learn::Last {
        answers.drain(..answers.len().saturating_sub(1));
    }
    if answers.len() > ANSWERS_MAX {
        return Err(Error::data(format!("chat: the chat has {} answers", answers.len()))
            .with("bound", ANSWERS_MAX)
            .hint(GENERATION_HINT));
    }
    answers.into_iter().map(|message| answer(chat, message, special, render)).collect()
}

const GENERATION_HINT: &str =
    "put {% generation %} and {% endgeneration %} around the answer in the template, or use learn=\"last\"";

/// Finds the answer that is one message.
fn answer(chat: &str, message: usize, special: &[String], render: Render<'_>) -> Result<Range<usize>> {
    let with = render(message + 1, false)?.text;
    let before = render(message, true)?.text;
    if !chat.starts_with(&with) || !with.starts_with(&before) {
        return Err(Error::data(
            "chat: the template writes an answer differently when it is the last message, so its place is not known",
        )
        .with("message", message)
        .hint(GENERATION_HINT));
    }
    let text = &with[before.len()..];
    let ended = text.trim_end();
    let ends_itself = special.iter().any(|token| !token.is_empty() && ended.ends_with(token.as_str()));
    Ok(before.len()..before.len() + if ends_itself { ended.len() } else { text.len() })
}
