//! An example of each command, shown at the end of its help and of its man page.
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Cli;

/// Lines that can be typed as they are; each belongs to the command that its first words
/// name.
#[rustfmt::skip]
const EXAMPLES: &[&str] = &[
    "hnlb run --config /etc/hnlb/hnlb.toml",
    "hnlb check /etc/hnlb/hnlb.toml",
    "hnlb status",
    "hnlb status --connection 192.0.2.7:40000",
    "hnlb top --view workers",
    "hnlb top --once --filter web",
    "hnlb connections --top rate --limit 10",
    "hnlb connections --client 198.51.100.7 --json",
    "hnlb explain tcp 198.51.100.7:40000 192.0.2.100:80",
    "hnlb explain trace.pcapng --config hnlb.toml",
    "hnlb why-not-offloaded",
    "hnlb why-not-offloaded 198.51.100.7:40000",
    "hnlb capture web.pcapng --service web --count 100",
    "hnlb capture - --address 198.51.100.7 --seconds 10",
    "hnlb config save",
    "hnlb backend drain web 192.0.2.11",
    "hnlb backend restore web 192.0.2.11",
    "hnlb backend add web 192.0.2.14 --weight 2",
    "hnlb backend weight web 192.0.2.11 --weight 5",
    "hnlb backend remove web 192.0.2.12",
    "hnlb drain --all",
    "hnlb restore --all",
    "hnlb announce show",
    "hnlb announce render bird --config /etc/hnlb/hnlb.toml",
    "hnlb announce render keepalived --config /etc/hnlb/hnlb.toml",
    "hnlb reload",
    "hnlb diff",
    "hnlb replay --config hnlb.toml in.pcapng out.pcapng",
    "hnlb replay --config hnlb.toml --nic x550 --encoding queue --trace in.pcap",
    "hnlb nf run --config nf.toml",
    "hnlb nf check --config nf.toml",
    "hnlb nf status --json",
    "hnlb nf function --attach vhost:/run/hnlb/nf0.sock --cycles-per-packet 2000",
    "hnlb doctor --config /etc/hnlb/hnlb.toml",
    "hnlb nic list",
    "hnlb nic probe 0000:3b:00.0 --peer 0000:3b:00.1",
    "hnlb nic probe emulated:x550 --json",
    "hnlb setup",
    "hnlb setup --device 0000:3b:00.0 --address 192.0.2.1/24 --vip 192.0.2.100:80 --backend 192.0.2.11 --backend 192.0.2.12 --out hnlb.toml",
    "hnlb schema",
    "hnlb man /usr/share/man/man1",
    "hnlb completions bash",
    "hnlb bench table --sizes 8k,1M --threads 1",
    "hnlb bench admission --alphas 1.1 --json",
    "hnlb bench fig4 --quick",
    "hnlb bench fig5 --systems slb,hnlb-mark --out results",
    "hnlb bench fig6 --quick",
    "hnlb bench fig7 --quick",
    "hnlb bench fig8 --quick",
    "hnlb bench new --quick",
    "hnlb bench latency --quick",
    "hnlb bench churn --quick",
    "hnlb bench workers --quick",
    "hnlb bench paper --quick --out results",
    "hnlb bench compare --seconds 1 --rounds 3",
    "hnlb bench xenoflow --quick",
    "hnlb bench crypto --quick",
    "hnlb bench http --quick",
    "hnlb bench laslb --quick --out results",
    "hnlb bench xdp --quick",
    "hnlb lab up --encoding queue",
    "hnlb lab status",
    "hnlb lab down",
    "hnlb lab exec c1 curl http://10.71.0.100/",
    "hnlb lab demo --encoding mark",
    "hnlb lab reload --reloads 50 --mode nat --encoding mark --seed 1",
    "hnlb lab flood --seconds 10 --attack syn",
    "hnlb lab answers",
    "hnlb lab nf --seconds 3",
    "hnlb lab idle --seconds 10 --json",
    "hnlb lab health --encoding mark",
    "hnlb lab crash --connections 100",
    "hnlb lab xdp",
    "hnlb lab http --faulty --seed 2",
    "hnlb lab https",
    "hnlb lab kernel --encoding mark",
    "hnlb lab pair --by bgp",
    "hnlb lab dns",
    "hnlb lab vm-check",
];

/// The command line, with the examples in its help.
pub(crate) fn command() -> Command {
    with_examples(Cli::command(), "hnlb")
}

/// What the user typed; ends the program where clap does.
pub(crate) fn parse() -> Cli {
    let matches: ArgMatches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// `command`, which is typed as `path`, and all below it.
fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|own| own.get_name().to_owned()).collect();
    if names.is_empty() {
        let lines: Vec<&str> = EXAMPLES.iter().copied().filter(|line| is_of(line, path)).collect();
        return match lines.len() {
            0 => command,
            1 => command.after_help(format!("Example:\n  {}", lines.join(""))),
            _ => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        };
    }
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, |own| with_examples(own, &below))
    })
}

/// Whether the example `line` is one of the command that is typed as `path`.
fn is_of(line: &str, path: &str) -> bool {
    line.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that print nothing for programs: those that run until they are stopped,
    /// the texts of other programs' formats, and checks of the lab, which say in a line
    /// each what they saw and fail if it is not as it should be.
    const WITHOUT_JSON: [&str; 22] = [
        "hnlb run",
        "hnlb nf run",
        "hnlb nf function",
        "hnlb schema",
        "hnlb man",
        "hnlb completions",
        "hnlb lab up",
        "hnlb lab status",
        "hnlb lab down",
        "hnlb lab exec",
        "hnlb lab demo",
        "hnlb lab reload",
        "hnlb lab answers",
        "hnlb lab health",
        "hnlb lab crash",
        "hnlb lab xdp",
        "hnlb lab http",
        "hnlb lab https",
        "hnlb lab kernel",
        "hnlb lab pair",
        "hnlb lab dns",
        "hnlb lab vm-check",
    ];

    /// The commands that have none below them and are not hidden, by what is typed.
    fn leaves(command: &Command, path: &str) -> Vec<(String, Command)> {
        let below = command.get_subcommands().filter(|own| !own.is_hide_set());
        let found: Vec<_> =
            below.flat_map(|own| leaves(own, &format!("{path} {}", own.get_name()))).collect();
        if found.is_empty() { vec![(path.to_owned(), command.clone())] } else { found }
    }

    #[test]
    fn every_command_has_an_example_that_can_be_typed() {
        let leaves = leaves(&command(), "hnlb");
        assert!(leaves.len() > 60, "{}", leaves.len());
        for (path, own) in &leaves {
            let help = own.clone().render_long_help().to_string();
            let shown = help.lines().map(str::trim).filter(|line| is_of(line, path)).count();
            let expected = EXAMPLES.iter().filter(|line| is_of(line, path)).count();
            assert!(expected > 0 && shown >= expected, "{path}: {shown} of {expected}\n{help}");
        }
        for line in EXAMPLES {
            let of = leaves.iter().filter(|(path, _)| is_of(line, path)).count();
            assert_eq!(of, 1, "{line}");
            if let Err(error) = command().try_get_matches_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn every_command_that_tells_something_tells_it_as_json() {
        for (path, own) in leaves(&command(), "hnlb") {
            let json = own.get_arguments().any(|own| own.get_long() == Some("json"));
            assert_eq!(json, !WITHOUT_JSON.contains(&path.as_str()), "{path}");
        }
    }
}
