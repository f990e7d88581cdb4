//! Latencies: percentiles, and the whole histogram, which can be merged with others.

use std::borrow::Borrow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The percentiles that fio prints.
pub const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Longest latency that is distinguished: an hour.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of a latency.
pub const DIGITS: u8 = 3;

/// A distribution of times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How many times were recorded.
    pub count: u64,
    /// The shortest; 0 if there is none.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Their standard deviation.
    pub stdev: f64,
    /// The longest.
    pub max: u64,
    /// The percentiles that fio prints.
    pub percentiles: Vec<Percentile>,
    /// The histogram, in base64 of HDR histogram's compressed second form ("V2", deflate), which every HDR library reads.
    pub histogram: String,
}

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    /// So many of a hundred times are as short as `ns` or shorter.
    pub percent: f64,
    /// In nanoseconds.
    pub ns: u64,
}

/// A histogram that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the histogram cannot be read: {0}")]
pub struct HistogramError(String);

/// An empty histogram with the bounds of all latencies here.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    // The bounds are constants, and a histogram with them exists.
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("valid bounds")
}

impl Latency {
    /// The latencies of this histogram.
    #[must_use]
    pub fn new(histogram: &Histogram<u64>) -> Latency {
        let mut bytes = Vec::new();
        // Writing to memory does not fail, and the counts fit: they were incremented one by one.
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a histogram that can be written");
        let empty = histogram.is_empty();
        Latency {
            count: histogram.len(),
            min: if empty { 0 } else { histogram.min() },
            mean: histogram.mean(),
            stdev: histogram.stdev(),
            max: histogram.max(),
            percentiles: PERCENTILES
                .iter()
                .map(|&percent| Percentile { percent, ns: histogram.value_at_percentile(percent) })
                .collect(),
            histogram: BASE64.encode(bytes),
        }
    }

    /// Decodes the histogram.
    ///
    /// # Errors
    /// The text is not base64, or not a histogram of this format.
    pub fn histogram(&self) -> Result<Histogram<u64>, HistogramError> {
        let bytes = BASE64.decode(&self.histogram).map_err(|e| HistogramError(e.to_string()))?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| HistogramError(e.to_string()))
    }

    /// All of them, merged. One that cannot be read is left out: documents are checked when they are read.
    #[must_use]
    pub fn merged<L: Borrow<Latency>>(parts: impl IntoIterator<Item = L>) -> Latency {
        let mut all = histogram();
        for part in parts {
            if let Ok(histogram) = part.borrow().histogram() {
                // Histograms that this program wrote have no longer times.
                let _ = all.add(&histogram);
            }
        }
        Latency::new(&all)
    }

    /// This percentile, in nanoseconds; `None` if it is not among [`PERCENTILES`].
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        self.percentiles.iter().find(|p| (p.percent - percent).abs() < 1e-9).map(|p| p.ns)
    }
}
