//! Clients that misuse TLS: handshakes a byte a second, and another handshake within a
//! connection.
use std::fs;

use super::checks::{Run, TRANSFER};
use crate::LabError;
use crate::topology::{Family, vip};

/// The program of the slow client.
const SLOW: &str = include_str!("slow.py");
/// Slow clients at a time.
const CLIENTS: usize = 20;

impl Run<'_> {
    /// Misuse ends with its connection, and others are served meanwhile.
    pub(super) fn misuse(&mut self) -> Result<(), LabError> {
        self.renegotiation()?;
        self.key_update()?;
        self.slow()
    }

    fn renegotiation(&mut self) -> Result<(), LabError> {
        let words = "-tls1_2 -servername www.lab";
        let found = self.s_client_with("(sleep 1; echo R; sleep 2)", words)?;
        let refused =
            found.contains("alert no renegotiation") || found.contains("alert number 100");
        let found = if refused { "refused" } else { &found };
        self.expect("another handshake within TLS 1.2", found, "refused");
        Ok(())
    }

    /// A client's new key, and the service's that it asks for, change nothing else.
    fn key_update(&mut self) -> Result<(), LabError> {
        let request =
            "printf 'GET / HTTP/1.1\\r\\nHost: www.lab\\r\\nConnection: close\\r\\n\\r\\n'";
        for (key, what) in [("k", "a client's new key"), ("K", "new keys of both sides")] {
            let script = format!("(sleep 1; echo {key}; sleep 1; {request}; sleep 2)");
            let found = self.s_client_with(&script, "-tls1_3 -servername www.lab")?;
            let answered = found.contains("KEYUPDATE") && found.contains("HTTP/1.1 200");
            self.expect(what, if answered { "answered" } else { &found }, "answered");
        }
        Ok(())
    }

    fn slow(&mut self) -> Result<(), LabError> {
        let dir = self.lab.dir().display().to_string();
        let file = self.lab.dir().join("slow.py");
        fs::write(&file, SLOW).map_err(LabError::io(format!("write {}", file.display())))?;
        let script = format!(
            "cd {dir}; for i in $(seq {CLIENTS}); do python3 slow.py {} > slow.$i 2>&1 & done; \
             echo begun",
            vip(Family::V4)
        );
        self.lab.exec("c2", &["sh", "-c", &script])?.success()?;
        let found = self.curl(Family::V4, "-o /dev/null -w %{http_code} https://www.lab/")?;
        self.expect("a request beside slow handshakes", &found, "200");
        let wait = format!(
            "cd {dir}; i=0; until [ $(cat slow.[0-9]* | wc -l) -eq {CLIENTS} ]; do \
             i=$((i+1)); [ $i -lt 900 ] || break; sleep 0.1; done; sort slow.[0-9]* | uniq -c"
        );
        let found = self.lab.exec_for("c2", &["sh", "-c", &wait], TRANSFER)?.success()?.stdout;
        let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
        self.expect("handshakes a byte a second", &found, &format!("{CLIENTS} reset"));
        Ok(())
    }
}
