//! What happens when no backend of a service is up.
use crate::word::words;

words! {
    /// What a service does with new connections when its health checks have taken
    /// every backend down, and no backup is up.
    #[derive(Default)]
    AllDown: "all_down" {
        /// They get the answer that the service's `refuse` names.
        #[default]
        Refuse => "refuse",
        /// All backends serve as if they were up: checks that fail everywhere may be wrong.
        ServeAll => "serve-all",
    }
}
