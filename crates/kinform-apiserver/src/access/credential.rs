//! Static tokens: the server's own, and those of a test's users.
//!
//! ```text
//! builder, token file ──▶ Tokens { token ──▶ User }
//! ```
//!
//! Looking one up takes a time that does not depend on where a wrong one differs.
//!
//! Upstream: `apiserver:pkg/authentication/token/tokenfile`.

use std::sync::Arc;

use super::User;

/// BOUND: the number of tokens in a file.
const MOST: usize = 10_000;

/// Known tokens.
#[derive(Clone, Default)]
pub(crate) struct Tokens(Vec<(Arc<str>, Arc<User>)>);

/// A line of a token file that cannot be parsed. The error does not quote it: it may hold a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the token file: {why}")]
pub struct TokenFileError {
    line: usize,
    why: &'static str,
}

impl Tokens {
    /// Adds a token.
    pub(crate) fn add(&mut self, token: impl Into<Arc<str>>, user: User) {
        self.0.push((token.into(), Arc::new(user.authenticated())));
    }

    /// Adds the lines of a file in upstream's format: `token,user,uid,"group1,group2"`.
    pub(crate) fn add_file(&mut self, text: &str) -> Result<(), TokenFileError> {
        for (at, line) in text.lines().enumerate() {
            let error = |why| TokenFileError { line: at + 1, why };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = fields(line).ok_or_else(|| error("a quote is not closed"))?;
            let [token, name, uid, groups @ ..] = fields.as_slice() else {
                return Err(error("a token, a user and a uid are needed"));
            };
            if token.is_empty() || name.is_empty() {
                return Err(error("the token or the user is empty"));
            }
            if self.0.len() >= MOST {
                return Err(error("there are too many tokens"));
            }
            let user = User::new(name).with_uid(uid);
            let groups = groups.first().map_or("", String::as_str);
            let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty());
            self.add(token.as_str(), groups.fold(user, User::with_group));
        }
        Ok(())
    }

    /// Returns the user of a token.
    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        let mut found = None;
        for (known, user) in &self.0 {
            if same(known.as_bytes(), token.as_bytes()) {
                found = found.or(Some(user));
            }
        }
        found.cloned()
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tokens").field(&self.0.len()).finish()
    }
}

/// Returns whether two secrets are equal, in a time that depends on their lengths alone.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> bool {
    let differences = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
    ours.len() == theirs.len() && differences == 0
}

/// Parses a line of comma-separated values. Returns `None` if a quote is not closed.
fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            letter => field.push(letter),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_is_read_as_upstream_reads_it() {
        let mut tokens = Tokens::default();
        let file = "# a comment\nt1,ann,u1,\"devs,ops\"\n\nt2,bob,u2\n";
        tokens.add_file(file).unwrap();
        let ann = tokens.user("t1").unwrap();
        assert_eq!((ann.name(), ann.uid()), ("ann", "u1"));
        assert_eq!(ann.groups(), ["devs", "ops", "system:authenticated"]);
        assert_eq!(
            tokens.user("t2").unwrap().groups(),
            ["system:authenticated"]
        );
        for wrong in ["t", "t11", "", "T1"] {
            assert!(tokens.user(wrong).is_none(), "{wrong}");
        }
        for (file, line) in [("a,b", 1), ("a,b,c\n,b,c", 2), ("\"a,b,c", 1)] {
            let error = Tokens::default().add_file(file).unwrap_err();
            assert_eq!(error.line, line, "{file}");
        }
    }
}
