//! The tokens that clients show, and the role of each (RFC 6750).
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::role::Role;

/// Characters that a token has at least.
const SHORTEST: usize = 32;

/// Hashes of the tokens: a comparison takes the same time whatever is right in a token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tokens(Vec<(Role, [u8; SHA256_OUTPUT_LEN])>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

impl Tokens {
    /// The tokens in `text`: a role and a token on each line that is neither empty nor a
    /// comment.
    ///
    /// # Errors
    /// What is wrong in which line, without the token.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = read(line).map_err(|why| format!("line {}: {why}", at + 1))?;
            tokens.push(read);
        }
        if tokens.is_empty() {
            return Err("there is no token; write a line as: viewer TOKEN".to_owned());
        }
        Ok(Self(tokens))
    }

    /// The role of the client that shows `token`. All tokens are compared.
    pub(crate) fn role(&self, token: &str) -> Option<Role> {
        let shown = hash(token);
        let is_equal = |own: &[u8]| verify_slices_are_equal(own, &shown).is_ok();
        let matching = self.0.iter().map(|(role, own)| is_equal(own).then_some(*role));
        matching.fold(None, Option::max)
    }
}

fn read(line: &str) -> Result<(Role, [u8; SHA256_OUTPUT_LEN]), String> {
    let mut words = line.split_whitespace();
    let role = match words.next() {
        Some("viewer") => Role::Viewer,
        Some("operator") => Role::Operator,
        _ => return Err("a line begins with the role: viewer or operator".to_owned()),
    };
    let (Some(token), None) = (words.next(), words.next()) else {
        return Err("behind the role is one token".to_owned());
    };
    if token.len() < SHORTEST {
        return Err(format!(
            "a token has at least {SHORTEST} characters; `openssl rand -hex 32` makes one"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)) {
        return Err("a token has letters, digits and -._~+/= only".to_owned());
    }
    Ok((role, hash(token)))
}

fn hash(token: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEWER: &str = "0123456789abcdef0123456789abcdef";
    const OPERATOR: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn each_token_has_its_role_and_others_have_none() {
        let text = format!("# ours\n\nviewer {VIEWER}\n operator  {OPERATOR}\n");
        let tokens = Tokens::parse(&text).unwrap();
        assert_eq!(tokens.role(VIEWER), Some(Role::Viewer));
        assert_eq!(tokens.role(OPERATOR), Some(Role::Operator));
        let longer = format!("{OPERATOR}0");
        for other in ["", &VIEWER[1..], &longer, "operator", &VIEWER.to_uppercase()] {
            assert_eq!(tokens.role(other), None, "{other}");
        }
        assert!(!format!("{tokens:?}").contains(VIEWER));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_token() {
        for (text, why) in [
            ("", "no token"),
            ("# none\n", "no token"),
            ("viewer short", "at least 32"),
            ("admin 0123456789abcdef0123456789abcdef", "viewer or operator"),
            ("0123456789abcdef0123456789abcdef", "viewer or operator"),
            ("viewer", "one token"),
            ("viewer 0123456789abcdef 0123456789abcdef", "one token"),
            ("viewer 0123456789abcdef0123456789abcde\u{e9}", "letters, digits"),
        ] {
            let error = Tokens::parse(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("012345"), "{text}: {error}");
        }
        let second = format!("viewer {VIEWER}\nnonsense");
        assert!(Tokens::parse(&second).unwrap_err().starts_with("line 2: "));
    }
}
