//! Configuration of a gateway, read from TOML.
