//! `forebay token`

use forebay_core::Result;
use forebay_server::new_token;

use crate::arguments::{Token, TokenAction};
use crate::output;

pub(crate) fn run(arguments: &Token) -> Result<()> {
    let TokenAction::New(new) = &arguments.what;
    let made = new_token(new.tokens.as_deref(), new.role.into(), &new.tenant)?;
    if new.json {
        return output::json(&made);
    }
    if new.tokens.is_none() {
        eprintln!("for \"tokens\" of the dispatcher's file (--tokens): {}", made.entry);
    }
    output::line(&made.token)
}
