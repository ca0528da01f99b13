//! Environment variables of options: an empty one counts as not set.

#![expect(clippy::disallowed_methods, reason = "the options read their environment variables")]

/// Returns the command line, in which an empty environment variable counts as not set.
pub(crate) fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        let variable = arg.get_env();
        variable.and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    let unset = |arg: clap::Arg| if is_empty(&arg) { arg.env(None::<&str>) } else { arg };
    command.mut_args(unset).mut_subcommands(without_empty_variables)
}
