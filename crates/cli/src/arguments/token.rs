//! Bearer tokens of a service's callers.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_server::Role;

const TOKEN_EXAMPLES: &str = "\
Examples:
  forebay token new --tokens tokens.json --tenant vision > vision.token
  forebay token new --tokens tokens.json --role worker   for a worker of all tenants
  forebay token new --tenant vision --json               prints the entry to add to the file

A token is printed once: the file holds its SHA-256 only. The dispatcher reads a changed file within a second; to revoke a
token, remove its entry. Quotas are in the same file:
  \"tenants\": {\"vision\": {\"jobs\": 8, \"consumers\": 64, \"workers\": 16, \"calls_per_second\": 100}}";

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) what: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token and print it once
    New(NewToken),
}

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct NewToken {
    /// Tenant of the token; a client needs one, and a worker without one computes for all tenants
    #[arg(long, default_value = "")]
    pub(crate) tenant: String,
    /// Role of the bearer
    #[arg(long, value_enum, default_value = "client")]
    pub(crate) role: RoleName,
    /// The dispatcher's file of tokens, to which the entry is added
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Print the token and the entry as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum RoleName {
    /// Opens, reads, lists and cancels jobs of its tenant
    Client,
    /// Computes splits
    Worker,
    /// Does both, and lists and cancels jobs of all tenants
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
