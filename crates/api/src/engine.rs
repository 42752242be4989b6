//! The link to the control thread of the load balancer, shared by all clients.
use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use control::{Answered, Asked, Refusal, Request};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Requests that wait to be sent; more are refused as busy.
const QUEUE: usize = 256;
/// How long an answer may take: a search over a large table, a slow driver.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The version of the configuration, if the load balancer has said it.
    pub(crate) version: Option<u64>,
    /// The answer as JSON.
    pub(crate) outcome: Result<Box<RawValue>, Refusal>,
}

struct Call {
    request: Request,
    version: Option<u64>,
    reply: oneshot::Sender<Reply>,
}

/// Asks the load balancer.
#[derive(Clone, Debug)]
pub(crate) struct Engine(mpsc::Sender<Call>);

impl Engine {
    /// The load balancer at the other end of `link`, and the work of the link, which
    /// ends when the load balancer does.
    pub(crate) fn new(
        link: StdStream,
    ) -> std::io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        link.set_nonblocking(true)?;
        let stream = UnixStream::from_std(link)?;
        let (calls, queue) = mpsc::channel(QUEUE);
        Ok((Self(calls), run(stream, queue)))
    }

    /// The outcome of `request`, as JSON.
    pub(crate) async fn ask(&self, request: Request) -> Reply {
        self.ask_of(request, None).await
    }

    /// The outcome of `request`, which is meant for this version of the configuration
    /// alone.
    pub(crate) async fn ask_of(&self, request: Request, version: Option<u64>) -> Reply {
        let asked = self.call(request, version).await;
        asked.unwrap_or_else(|refusal| Reply { version: None, outcome: Err(refusal) })
    }

    async fn call(&self, request: Request, version: Option<u64>) -> Result<Reply, Refusal> {
        let busy = |what: &str| Refusal::Busy(what.to_owned());
        let (reply, outcome) = oneshot::channel();
        self.0
            .try_send(Call { request, version, reply })
            .map_err(|_| busy("too many requests wait for the load balancer"))?;
        match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(busy("the load balancer is stopping, or has too much to do")),
            Err(_) => Err(busy("the load balancer has not answered for 10 s")),
        }
    }

    /// The outcome of `request`.
    pub(crate) async fn ask_for<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<T, Refusal> {
        let answer = self.ask(request).await.outcome?;
        serde_json::from_str(answer.get()).map_err(|error| Refusal::Busy(error.to_string()))
    }
}

async fn run(stream: UnixStream, mut queue: mpsc::Receiver<Call>) {
    let (read, mut write) = stream.into_split();
    // Neither side's writing waits for its reading.
    let (sender, mut outgoing) = mpsc::channel::<Vec<u8>>(QUEUE);
    tokio::spawn(async move {
        while let Some(line) = outgoing.recv().await {
            if write.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    let mut lines = BufReader::new(read).lines();
    let mut waiting: HashMap<u64, oneshot::Sender<Reply>> = HashMap::new();
    let mut id = 0;
    loop {
        tokio::select! {
            call = queue.recv() => {
                let Some(Call { request, version, reply }) = call else { return };
                // A caller that has gone waits for nothing.
                waiting.retain(|_, reply| !reply.is_closed());
                id += 1;
                let line = Asked { id, version, request }.line().ok();
                // A call that is not sent loses its reply, which its caller is told.
                if line.is_some_and(|line| sender.try_send(line).is_ok()) {
                    waiting.insert(id, reply);
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                match serde_json::from_str::<Answered>(&line) {
                    // The client may have gone.
                    Ok(Answered { id, version, answer }) => drop(waiting.remove(&id).map(|reply| reply.send(Reply { version: Some(version), outcome: answer }))),
                    Err(error) => {
                        tracing::error!(%error, "the load balancer's answer is not understood");
                        return;
                    }
                }
            }
        }
    }
}
