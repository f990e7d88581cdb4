//! Configurations: any text is accepted, or refused with something to say; what is accepted survives being written.

use std::path::Path;

use flashmob_server::config::Config;

/// Parses the input as a configuration's text.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let config = match Config::parse(&text, "gateway.toml", Path::new("/etc/flashmob")) {
        Ok(config) => config,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("error: "), "{message}");
            assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
            assert!(message.lines().all(|line| line.chars().count() < 400), "{message}");
            return;
        }
    };
    assert!(!config.volumes.is_empty() && !config.listen.is_empty());
    let text = match config.to_toml() {
        Ok(text) => text,
        Err(error) => panic!("what was accepted cannot be written: {error}: {config:?}"),
    };
    // Paths are absolute by now: the folder does not matter.
    match Config::parse(&text, "again.toml", Path::new("/elsewhere")) {
        Ok(again) => assert_eq!(again, config, "{text}"),
        Err(error) => panic!("what was written is refused: {error}\n{text}"),
    }
}
