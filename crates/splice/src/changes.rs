//! What a configuration changes in headers.

/// A field's name and value.
pub type NamedValue = (String, String);

/// What becomes of the fields of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Fields that take the place of all with the same name.
    pub set: &'a [NamedValue],
    /// Fields that come beside those with the same name.
    pub add: &'a [NamedValue],
    /// Names of fields that are left out.
    pub remove: &'a [String],
}

impl Changes<'_> {
    /// Whether fields with this name do not pass.
    #[must_use]
    pub fn drop(&self, name: &[u8]) -> bool {
        let is = |own: &String| own.as_bytes().eq_ignore_ascii_case(name);
        self.remove.iter().any(is) || self.set.iter().any(|(own, _)| is(own))
    }

    /// The fields that are written behind those that pass.
    pub fn written(&self) -> impl Iterator<Item = [&[u8]; 4]> {
        let all = self.set.iter().chain(self.add);
        all.map(|(name, value)| [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"])
    }
}
