//! Tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_server::Role;

const TOKEN_EXAMPLES: &str = "\
Examples:
  forebay token new --tokens tokens.json --tenant vision > vision.token
  forebay token new --tokens tokens.json --role worker   a worker for every tenant
  forebay token new --tenant vision --json               prints what to add to the file

A token is shown once: the file has only what SHA-256 makes of it. The dispatcher takes a changed file up within a second; to
revoke a token, take its entry out. Quotas stand in the same file:
  \"tenants\": {\"vision\": {\"jobs\": 8, \"consumers\": 64, \"workers\": 16, \"calls_per_second\": 100}}";

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) what: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token and print it, once
    New(NewToken),
}

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct NewToken {
    /// Whose it is; a client's token needs one, a worker's without one computes for every tenant
    #[arg(long, default_value = "")]
    pub(crate) tenant: String,
    /// What its bearer may do
    #[arg(long, value_enum, default_value = "client")]
    pub(crate) role: RoleName,
    /// The dispatcher's file of tokens, which the entry is added to
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Print the token and the entry as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum RoleName {
    /// Open, read, list and cancel the jobs of its tenant
    Client,
    /// Compute
    Worker,
    /// All of that; list and cancel the jobs of every tenant
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Client => Self::Client,
            RoleName::Worker => Self::Worker,
            RoleName::Admin => Self::Admin,
        }
    }
}
