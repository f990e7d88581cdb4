//! Puts a load of random reads on an export and prints what it cost: `measure URI [BLOCK [CONNECTIONS
//! [OUTSTANDING [SECONDS [REST_US]]]]]`.

use std::time::Duration;

use flashmob_bench::load::{Load, Stop, run};
use flashmob_bench::progress::ProgressLine;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: u32| arguments.get(nth).map_or(Ok(default), |text| text.parse());
    let uri = arguments
        .first()
        .ok_or("usage: measure URI [BLOCK [CONNECTIONS [OUTSTANDING [SECONDS [REST_US]]]]]")?
        .parse()?;
    let load = Load {
        block_bytes: number(1, 4096)?,
        connections: number(2, 1)?,
        outstanding: number(3, 64)?,
        rest: Duration::from_micros(number(5, 0)?.into()),
        stop: Stop::After(Duration::from_secs(number(4, 5)?.into())),
        ..Load::default()
    };
    let mut line = ProgressLine::new("reading");
    let result = run(&uri, &load, &mut |progress| line.show(progress))?;
    drop(line);
    println!(
        "{:.0} reads/s, p50 {} us, p99 {} us, own CPU {:.0} ns per read, {} errors",
        result.requests_per_second(),
        result.latency_ns.value_at_quantile(0.5) / 1000,
        result.latency_ns.value_at_quantile(0.99) / 1000,
        result.cpu_ns_per_request(),
        result.errors_total(),
    );
    Ok(())
}
