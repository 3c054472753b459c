//! `gpuspy completions` and `gpuspy man`, generated from the definition of the commands.

use super::{Cli, Failure, print};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Args, Debug)]
pub(super) struct Man {
    /// A command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn completions(options: &Completions) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut visible(&Cli::command()), "gpuspy", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Returns a command without its hidden options and subcommands, which clap would complete like any other.
fn visible(command: &Command) -> Command {
    let options = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned()).about(about).args(options).subcommands(commands)
}

pub(super) fn man(options: &Man) -> Result<ExitCode, Failure> {
    // `gpuspy help` has no page.
    let mut all = Cli::command().disable_help_subcommand(true);
    // This gives every command its full name, such as `gpuspy run`.
    all.build();
    let page = match &options.command {
        None => Page::new(all),
        Some(name) => {
            let command = all.get_subcommands().find(|c| c.get_name() == name && !c.is_hide_set());
            let unknown = || Failure::usage(format_args!("there is no command {name}; see gpuspy --help"));
            let command = command.ok_or_else(unknown)?.clone();
            Page::new(command).title(format!("gpuspy-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(|e| Failure::usage(format_args!("cannot make the page: {e}")))?;
    print(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_commands_is_valid() {
        Cli::command().debug_assert();
    }
}
