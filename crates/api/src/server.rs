//! The process that serves the API.
use std::io;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::UnixListener;

use crate::credentials::Paths;
use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::gate::{self, Gate, Peer};
use crate::page;
use crate::remote::{self, TlsListener};
use crate::routes::{App, endpoints, nothing_here};

/// How the API is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of the user who may change things by the Unix socket, as root may.
    pub owner: u32,
    /// Where it is served over TCP, and the names that it answers to.
    pub api: config::Api,
}

/// Serves the API on `listener`, and over TCP if the settings say so, until the load
/// balancer at the other end of `link` ends.
///
/// # Errors
/// The system gives no threads or sockets.
pub fn serve(link: StdStream, listener: StdListener, settings: Settings) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (engine, link) = Engine::new(link)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let Settings { owner, api } = settings;
        let app = App::new(engine);
        let mut gate = Gate { owner, names: api.names.clone(), credentials: None };
        if let Some((address, paths)) = api.listen.zip(Paths::of(&api)) {
            match remote::follow(paths) {
                Ok(credentials) => {
                    gate.credentials = Some(credentials.clone());
                    let router = router(app.clone(), gate.clone());
                    let service = router.into_make_service_with_connect_info::<Peer>();
                    tokio::spawn(async move {
                        let listener = TlsListener::bind(address, credentials).await;
                        // It ends with the process.
                        let _ = axum::serve(listener, service).await;
                    });
                }
                Err(error) => {
                    tracing::error!("{error}; the control API is served at the Unix socket only");
                }
            }
        }
        let service = router(app, gate).into_make_service_with_connect_info::<Peer>();
        tokio::select! {
            () = link => Ok(()),
            done = axum::serve(listener, service).into_future() => done,
        }
    })
}

/// All endpoints and the web page, behind the gate.
pub(crate) fn router(app: App, gate: Gate) -> Router {
    Endpoint::router(endpoints())
        .merge(page::routes())
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .with_state(app)
        .layer(from_fn_with_state(Arc::new(gate), gate::admit))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use axum::http::StatusCode;
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use hyper_util::rt::TokioIo;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::credentials;
    use crate::tests::obedient;

    const VIEWER: &str = "viewer-0123456789abcdef0123456789abcdef";
    const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";

    /// What a client over TCP gets for a request with these headers.
    async fn ask(
        (address, certificate): (SocketAddr, &Path),
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
    ) -> (StatusCode, String) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = hyper::Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn over_tcp_a_token_decides_and_without_one_there_is_nothing() {
        let (dir, api) =
            credentials::files_for_tests(&format!("viewer {VIEWER}\noperator {OPERATOR}\n"));
        let certificate = dir.path().join("cert.pem");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = StdStream::pair().unwrap();
            std::thread::spawn(move || obedient(theirs));
            let (engine, link) = Engine::new(ours).unwrap();
            tokio::spawn(link);
            let credentials = remote::follow(Paths::of(&api).unwrap()).unwrap();
            let names = vec!["lb1.example.net".to_owned()];
            let gate = Gate { owner: 0, names, credentials: Some(credentials.clone()) };
            let router = router(App::new(engine), gate);
            let listener = TlsListener::bind("127.0.0.1:0".parse().unwrap(), credentials).await;
            let address = axum::serve::Listener::local_addr(&listener).unwrap();
            let service = router.into_make_service_with_connect_info::<Peer>();
            tokio::spawn(axum::serve(listener, service).into_future());

            let at = (address, certificate.as_path());
            let bearer = |token: &str| format!("Bearer {token}");
            let (viewer, operator) = (bearer(VIEWER), bearer(OPERATOR));
            let (shorter, longer) = (&viewer[..viewer.len() - 1], bearer(&format!("{VIEWER}0")));
            let status = ("GET", "/v1/status");
            let drain = ("POST", "/v1/services/web/backends/10.0.0.1/drain");
            let basic = format!("Basic {VIEWER}");
            for wrong in ["", shorter, &longer, &basic, VIEWER, "Bearer ", "Bearer"] {
                for asked in [status, drain, ("GET", "/metrics"), ("GET", "/v1/none")] {
                    let (code, body) = ask(at, asked, &[("authorization", wrong)]).await;
                    assert_eq!(code, StatusCode::UNAUTHORIZED, "{wrong} {asked:?}");
                    assert!(body.contains("token") && !body.contains("web"), "{body}");
                }
            }
            assert_eq!(ask(at, status, &[]).await.0, StatusCode::UNAUTHORIZED);
            let viewer = ("authorization", viewer.as_str());
            let operator = ("authorization", operator.as_str());
            assert_eq!(ask(at, status, &[viewer]).await.0, StatusCode::OK);
            assert_eq!(ask(at, drain, &[viewer]).await.0, StatusCode::FORBIDDEN);
            assert_eq!(ask(at, ("GET", "/v1/config"), &[viewer]).await.0, StatusCode::FORBIDDEN);
            assert_eq!(ask(at, drain, &[operator]).await.0, StatusCode::OK);
            for foreign in [
                ("host", "evil.example"),
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "cross-site"),
            ] {
                let (code, body) = ask(at, drain, &[operator, foreign]).await;
                assert_eq!(code, StatusCode::FORBIDDEN, "{foreign:?} {body}");
            }
            let named = ("host", "lb1.example.net:9443");
            assert_eq!(ask(at, status, &[operator, named]).await.0, StatusCode::OK);
            let (code, page) = ask(at, ("GET", "/"), &[]).await;
            assert_eq!(code, StatusCode::OK);
            assert!(page.contains("<title>HNLB</title>"));
        });
    }
}
