//! The process that serves the API.
use std::io;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::net::UnixListener;

use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::role::Peer;
use crate::routes::{App, endpoints, nothing_here};

/// How the API is served.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number of the user who may change things by the Unix socket, as root may.
    pub owner: u32,
}

/// Serves the API on `listener` until the load balancer at the other end of `link` ends.
///
/// # Errors
/// The system gives no threads or sockets.
pub fn serve(link: StdStream, listener: StdListener, settings: Settings) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (engine, link) = Engine::new(link)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let router = router(App::new(engine), settings);
        let service = router.into_make_service_with_connect_info::<Peer>();
        tokio::select! {
            () = link => Ok(()),
            done = axum::serve(listener, service).into_future() => done,
        }
    })
}

/// All endpoints, for clients of the Unix socket.
pub(crate) fn router(app: App, settings: Settings) -> Router {
    Endpoint::router(endpoints())
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .with_state(app)
        .layer(from_fn_with_state(settings, admit))
}

/// Notes what the client may do.
async fn admit(
    State(settings): State<Settings>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    request.extensions_mut().insert(peer.role(settings.owner));
    next.run(request).await
}
