//! What is carried to a device: a code, a QR code, or a file with a token.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flashmob_server::keys::PublicKey;
use flashmob_server::keys::enroll::{Invitation, Secret};

/// A token in its file, which goes when this is dropped: it counts no longer then.
pub struct Token {
    path: PathBuf,
}

impl Token {
    /// Writes it to a new file that nobody else may read.
    pub fn write(path: &Path, place: &str, cluster: PublicKey, secret: Secret) -> anyhow::Result<Token> {
        let invitation = Invitation { address: place.to_string(), cluster: Some(cluster), secret };
        let link = invitation.to_link().context("the cluster is not known")?;
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.with_context(|| format!("cannot make {}", path.display()))?;
        // From now on it is removed on every way out.
        let token = Token { path: path.to_path_buf() };
        file.write_all(link.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(token)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // It may have been moved away.
        let _ = fs::remove_file(&self.path);
    }
}

/// A time for people.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    match (seconds / 3600, seconds / 60, seconds) {
        (hours @ 2.., ..) if seconds.is_multiple_of(3600) => format!("{hours} hours"),
        (_, minutes @ 2.., _) if seconds.is_multiple_of(60) => format!("{minutes} minutes"),
        (_, _, 1) => "1 second".to_string(),
        (_, _, seconds) => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_token_is_its_owners_alone_and_goes_with_its_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let secret = Secret::draw_link().unwrap();
        let token = Token::write(&path, "192.168.1.10:7413", PublicKey::of([7; 32]).unwrap(), secret.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let invitation: Invitation = fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!((invitation.secret, &invitation.address[..]), (secret.clone(), "192.168.1.10:7413"));
        assert!(
            Token::write(&path, "192.168.1.10:7413", PublicKey::of([7; 32]).unwrap(), secret).is_err(),
            "one is never overwritten"
        );
        assert!(path.exists(), "nor removed by who did not write it");
        drop(token);
        assert!(!path.exists());
    }

    #[test]
    fn times_are_told_in_whole_units() {
        for (seconds, words) in [
            (600, "10 minutes"),
            (3600, "60 minutes"),
            (7200, "2 hours"),
            (86_400, "24 hours"),
            (90, "90 seconds"),
            (1, "1 second"),
            (0, "1 second"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
