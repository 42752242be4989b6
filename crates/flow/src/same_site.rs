//! With which requests of other sites a browser sends a cookie.
use crate::word::words;

words! {
    /// With which requests that come from other sites a browser sends a cookie: the attribute SameSite.
    #[derive(Default)]
    SameSite: "same_site" {
        /// With those that follow a link.
        #[default]
        Lax => "lax",
        /// With none.
        Strict => "strict",
        /// With all; browsers then require `secure` too.
        None => "none",
    }
}
