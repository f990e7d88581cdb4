//! The server, and its log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use flashmob_bench::net::{Server, Told};

use super::NetArgs;
use crate::commands::tell;

/// Where it listens unless an address is given: only this device can connect.
const BIND_DEFAULT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Serves until a signal, or for one test.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    let cancel = tell::on_signal()?;
    let server = Server::bind(args.bind.unwrap_or(BIND_DEFAULT), args.port, args.longest)?;
    log::info!("{}", listening(server.address()));
    let is_good = server.run(args.one_off, &cancel, &mut |told| match told {
        Told::Test { client, what } => log::info!("{client}: {what}"),
        Told::Failed { client, why } => log::warn!("{client}: no result: {why}"),
        Told::Busy { client } => log::info!("{client}: rejected: another test is running"),
        Told::More { number, what } => log::warn!("{number} more {what} in the last minute"),
    });
    Ok(if is_good || !args.one_off { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where it listens, and who can connect.
fn listening(address: SocketAddr) -> String {
    let ip = address.ip().to_canonical();
    if ip.is_loopback() {
        let all = if address.is_ipv4() { "0.0.0.0" } else { "::" };
        return format!("listening on {address}: only this device can connect; --bind {all} accepts others");
    }
    let all = if ip.is_unspecified() { " (all addresses)" } else { "" };
    format!(
        "listening on {address}{all}: anyone who can reach this port can make this device send and receive; \
         --bind ADDRESS restricts it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        net: NetArgs,
    }

    #[test]
    fn only_this_device_can_connect_unless_an_address_is_given() {
        let args = Line::try_parse_from(["net", "-s", "-p", "0"]).unwrap().net;
        let bound = |args: &NetArgs| {
            Server::bind(args.bind.unwrap_or(BIND_DEFAULT), args.port, args.longest).unwrap().address()
        };
        assert!(bound(&args).ip().is_loopback());
        let args = Line::try_parse_from(["net", "-s", "-p", "0", "--bind", "0.0.0.0"]).unwrap().net;
        assert!(bound(&args).ip().is_unspecified());
    }

    #[test]
    fn the_first_line_says_who_can_connect() {
        let of = |address: &str| listening(address.parse().unwrap());
        for own in ["127.0.0.1:5201", "[::1]:5201", "[::ffff:127.0.0.1]:5201", "127.1.2.3:5201"] {
            let text = of(own);
            let all = if own.starts_with('[') { "::" } else { "0.0.0.0" };
            assert!(
                text.starts_with(&format!("listening on {own}: only this device can connect; --bind {all} ")),
                "{text}"
            );
        }
        for all in ["0.0.0.0:5201", "[::]:5201"] {
            assert!(of(all).starts_with(&format!("listening on {all} (all addresses): anyone who can reach")), "{all}");
        }
        assert!(of("192.168.1.20:5201").starts_with("listening on 192.168.1.20:5201: anyone who can reach"));
    }
}
