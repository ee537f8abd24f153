//! The token: made on first start, kept in a file of its owner, known to the server by its hash.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The secret that opens the API: 256 random bits as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

/// What the server keeps of its token: enough to recognise it, too little to repeat it.
#[derive(Clone, Copy)]
pub struct TokenHash(blake3::Hash);

/// Why there is no token.
#[derive(Debug)]
pub struct TokenError {
    path: PathBuf,
    kind: TokenErrorKind,
}

#[derive(Debug)]
enum TokenErrorKind {
    Io(&'static str, io::Error),
    Random,
    Shape,
    Exposed(u32),
}

/// 256 bits: beyond guessing at any rate of tries.
const TOKEN_BYTES: usize = 32;

/// A token file holds one line; more than this is some other file.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

impl Token {
    /// A new token from the system's randomness.
    pub fn random() -> Option<Token> {
        let mut bytes = [0u8; TOKEN_BYTES];
        getrandom::fill(&mut bytes).ok()?;
        Some(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    /// The text that goes behind `Authorization: Bearer`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the server keeps.
    pub fn hash(&self) -> TokenHash {
        TokenHash(blake3::hash(self.0.as_bytes()))
    }

    fn from_file_text(text: &str) -> Option<Token> {
        let text = text.trim();
        let whole = text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| Token(text.into()))
    }
}

impl TokenHash {
    /// Whether `given` is the token. Takes the same time however much of it is right: hashes are compared, and the
    /// comparison of hashes does not stop early.
    pub fn matches(&self, given: &[u8]) -> bool {
        self.0 == blake3::hash(given)
    }
}

/// The token kept in `path`, made on the first call. The file is readable by its owner alone; one that others can read
/// is refused, since its token may be known already.
pub fn load_or_create(path: &Path) -> Result<Token, TokenError> {
    match load(path) {
        Err(TokenError { kind: TokenErrorKind::Io(_, error), .. })
            if error.kind() == io::ErrorKind::NotFound =>
        {
            create(path)
        }
        done => done,
    }
}

/// The token kept in `path`; nothing is made.
pub fn load(path: &Path) -> Result<Token, TokenError> {
    let io = |what| move |error| TokenError { path: path.into(), kind: TokenErrorKind::Io(what, error) };
    let file = File::open(path).map_err(io("opened"))?;
    let mode = file.metadata().map_err(io("read"))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TokenError { path: path.into(), kind: TokenErrorKind::Exposed(mode) });
    }
    let mut text = String::new();
    file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text).map_err(io("read"))?;
    Token::from_file_text(&text).ok_or_else(|| TokenError { path: path.into(), kind: TokenErrorKind::Shape })
}

/// Writes a new token beside its place and links it in whole: of two servers that start at once one wins and both use
/// its token, and a crash leaves no half file.
fn create(path: &Path) -> Result<Token, TokenError> {
    let io = |what| move |error| TokenError { path: path.into(), kind: TokenErrorKind::Io(what, error) };
    let token =
        Token::random().ok_or_else(|| TokenError { path: path.into(), kind: TokenErrorKind::Random })?;
    if let Some(parent) = path.parent() {
        cadran_files::create_dir(parent).map_err(io("created"))?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(io("created"))?;
    // The mode given to `open` is cut by the umask but never widened; set it whole all the same.
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(io("created"))?;
    writeln!(file, "{}", token.as_str()).and_then(|()| file.sync_all()).map_err(io("written"))?;
    let linked = std::fs::hard_link(&beside, path);
    let _ = std::fs::remove_file(&beside);
    match linked {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(path),
        Err(error) => Err(io("created")(error)),
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl TokenError {
    /// Whether there is simply no token file yet.
    pub fn is_missing(&self) -> bool {
        matches!(&self.kind, TokenErrorKind::Io(_, error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the file is there and belongs to someone else.
    pub fn is_denied(&self) -> bool {
        matches!(&self.kind, TokenErrorKind::Io(_, error) if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            TokenErrorKind::Io(what, error) => {
                write!(f, "the token file {path} could not be {what}: {error}")
            }
            TokenErrorKind::Random => write!(f, "the system gave no random bytes for a token in {path}"),
            TokenErrorKind::Shape => {
                write!(
                    f,
                    "the token file {path} does not hold a token (64 hexadecimal digits); delete it and the next start makes a new one"
                )
            }
            TokenErrorKind::Exposed(mode) => write!(
                f,
                "the token file {path} can be read by others (mode {mode:03o}), so its token may be known; delete it and the next start makes a new one, or keep it with `chmod 600`"
            ),
        }
    }
}

impl std::error::Error for TokenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data").join("token");
        assert!(load(&path).unwrap_err().is_missing());
        let token = load_or_create(&path).unwrap();
        assert_eq!(token.as_str().len(), 64);
        assert_eq!(load_or_create(&path).unwrap(), token);
        assert_eq!(load(&path).unwrap(), token);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside the token");
        assert_ne!(load_or_create(&dir.path().join("other")).unwrap(), token);
    }

    #[test]
    fn a_hash_knows_its_token_alone() {
        let token = Token::random().unwrap();
        let hash = token.hash();
        assert!(hash.matches(token.as_str().as_bytes()));
        for wrong in ["", "x", &token.as_str()[1..], &format!("{} ", token.as_str()), &"0".repeat(64)] {
            assert!(!hash.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert!(!format!("{token:?} {hash:?}").contains(&token.as_str()[..8]));
    }

    #[test]
    fn odd_token_files_are_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let check = |content: &str, mode: u32, advice: &str| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let text = load_or_create(&path).unwrap_err().to_string();
            assert!(text.contains(advice), "{content:?} {mode:o}: {text}");
        };
        check("", 0o600, "delete it");
        check("secret", 0o600, "64 hexadecimal digits");
        check(&"ab".repeat(5000), 0o600, "64 hexadecimal digits");
        check(&"ab".repeat(32), 0o644, "chmod 600");
        check(&"ab".repeat(32), 0o660, "mode 660");
    }
}
