//! The gRPC health checking protocol: `grpc.health.v1.Health/Check` of one message
//! each way over HTTP/2 in the clear.
use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::tcp;

/// `HealthCheckResponse.ServingStatus.SERVING`
const SERVING: u64 = 1;

pub(super) async fn ask(at: SocketAddr, service: &str) -> Result<(), String> {
    let wrong = |error: hyper::Error| format!("HTTP/2: {error}");
    let stream = TokioIo::new(tcp::connect(at).await?);
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), stream).await.map_err(wrong)?;
    let driver = tokio::spawn(connection);
    let request = Request::post(format!("http://{at}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(question(service))))
        .map_err(|error| format!("the request: {error}"))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(wrong)?;
        let (head, body) = response.into_parts();
        if head.status != 200 {
            return Err(format!("HTTP status {}", head.status.as_u16()));
        }
        let body = body.collect().await.map_err(wrong)?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        match status.map(|status| status.as_bytes()) {
            Some(b"0") => {}
            Some(code) => return Err(format!("gRPC status {}", String::from_utf8_lossy(code))),
            None => return Err("no gRPC status in the answer".to_owned()),
        }
        match serving_status(&body.to_bytes()) {
            Some(SERVING) => Ok(()),
            Some(status) => Err(format!("serving status {status}, and 1 (SERVING) passes")),
            None => Err("the answer is no HealthCheckResponse".to_owned()),
        }
    }
    .await;
    driver.abort();
    answer
}

/// A `HealthCheckRequest` for `service` of at most 127 bytes, as a gRPC message.
fn question(service: &str) -> Vec<u8> {
    let name = service.as_bytes();
    let mut message = Vec::new();
    if !name.is_empty() {
        message.extend([0x0a, name.len().min(127) as u8]);
        message.extend(name.iter().take(127));
    }
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed
}

/// The `status` of a `HealthCheckResponse` in a gRPC message; 0 (UNKNOWN) if it has
/// none, as protobuf leaves zeros out.
fn serving_status(framed: &[u8]) -> Option<u64> {
    let (head, message) = framed.split_first_chunk::<5>()?;
    let [0, a, b, c, d] = *head else { return None };
    let message = message.get(..u32::from_be_bytes([a, b, c, d]) as usize)?;
    match *message {
        [] => Some(0),
        [0x08, status] if status < 0x80 => Some(status.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_protobuf() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 1]), Some(SERVING));
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 2]), Some(2));
        assert_eq!(serving_status(&[0, 0, 0, 0, 0]), Some(0));
        for wrong in [&[][..], &[0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 9, 8, 1]] {
            assert_eq!(serving_status(wrong), None);
        }
    }
}
