//! What a running load balancer does: `hnlb status`, `top`, `connections`,
//! `why-not-offloaded`.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use top::View;

/// `hnlb status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Explain why the connections of this client are in the NIC, or are not, and
    /// since when.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) connection: Option<SocketAddr>,
    /// Print the status, or the explanation, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb top`
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The view to begin with, or with --once the only one to print [default: backends,
    /// with --once all].
    #[arg(long, value_name = "VIEW", value_parser = view)]
    pub(crate) view: Option<View>,
    /// Sort the view by this column, as its head names it.
    #[arg(long, value_name = "COLUMN", requires = "view")]
    pub(crate) sort: Option<String>,
    /// Show only rows that contain this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Seconds between two reports, over which rates are means.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one picture as text, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one picture as JSON, and end.
    #[arg(long, conflicts_with_all = ["once", "view", "filter"])]
    pub(crate) json: bool,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
}

fn view(text: &str) -> Result<View, String> {
    let names = || View::ALL.map(View::name).join(", ");
    let found = View::ALL.into_iter().find(|own| own.name() == text);
    found.ok_or_else(|| format!("there are the views {}", names()))
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("the time between two reports must be from 0.1 to 3600 seconds".to_owned())
    }
}

/// `hnlb connections`
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    /// Show only the connections of this client's address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<std::net::IpAddr>,
    /// Show only the connections of this service.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Show only the connections of the backend with this address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) backend: Option<std::net::IpAddr>,
    /// Show the connections with the most packets per second first, of those whose rates
    /// are measured.
    #[arg(long, value_enum, value_name = "BY")]
    pub(crate) top: Option<Top>,
    /// The number of connections to leave out.
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: u64,
    /// The most connections to show.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) limit: u16,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the connections as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// By what connections are ordered.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Top {
    /// By packets per second.
    Rate,
}

/// `hnlb why-not-offloaded`
#[derive(Debug, Args)]
pub(crate) struct WhyNotOffloadedArgs {
    /// A client's address and port, or a 5-tuple: tcp or udp, the client's address and
    /// port, the service's [default: count the connections by reason].
    #[arg(value_name = "CONNECTION", num_args = 0..=3)]
    pub(crate) connection: Vec<String>,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
