//! What a process that was just killed still holds: its sockets are there until the
//! kernel has taken the process apart, which takes seconds on a busy machine.
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long a start waits for another process to let go.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two attempts.
const STEP: Duration = Duration::from_millis(50);

/// The first success of `attempt` within `patience`, or its last error; errors for
/// which `is_taken` is `false` end the wait.
pub(crate) fn wait<T, E: Display>(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
    is_taken: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    let mut told = false;
    loop {
        match attempt() {
            Err(error) if is_taken(&error) && start.elapsed() < patience => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!("{error}; waiting up to {} s for it to end", patience.as_secs());
                }
                std::thread::sleep(STEP);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_free_is_had_and_other_errors_end_the_wait() {
        let mut left = 3;
        let mut attempt = || {
            left -= 1;
            if left > 0 { Err("taken") } else { Ok(left) }
        };
        let minute = Duration::from_secs(60);
        assert_eq!(wait(minute, &mut attempt, |error| *error == "taken"), Ok(0));
        let refused = wait(minute, || Err::<(), _>("refused"), |error| *error == "taken");
        assert_eq!(refused, Err("refused"));
        let mut tries = 0;
        let mut attempt = || {
            tries += 1;
            Err::<(), _>("taken")
        };
        assert_eq!(wait(Duration::ZERO, &mut attempt, |_| true), Err("taken"));
        assert_eq!(tries, 1);
    }
}
