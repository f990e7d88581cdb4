//! Reduces a series of any length to a number of points that keep its shape.

/// Minimum and maximum of consecutive values.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    low: (f64, f64),
    high: (f64, f64),
    count: u64,
}

/// Points in order; beyond the limit, only the minimum and maximum of each stretch are kept.
#[derive(Clone, Debug)]
pub struct Thinned {
    stretches: Vec<Stretch>,
    limit: usize,
    /// Values per stretch.
    each: u64,
}

impl Thinned {
    /// Without points; at most `points` are kept.
    pub fn new(points: usize) -> Thinned {
        // A stretch has two points.
        Thinned { stretches: Vec::new(), limit: (points / 2).max(2), each: 1 }
    }

    pub fn add(&mut self, x: f64, y: f64) {
        let new = Stretch { low: (x, y), high: (x, y), count: 1 };
        if let Some(last) = self.stretches.last_mut().filter(|last| last.count < self.each) {
            *last = joined(*last, new);
            return;
        }
        if self.stretches.len() == self.limit {
            self.each *= 2;
            self.stretches = self
                .stretches
                .chunks(2)
                .map(|pair| if let [one, two] = *pair { joined(one, two) } else { pair[0] })
                .collect();
            return self.add(x, y);
        }
        self.stretches.push(new);
    }

    pub fn points(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::with_capacity(self.stretches.len() * 2);
        for stretch in &self.stretches {
            let (mut one, mut two) = (stretch.low, stretch.high);
            if one.0 > two.0 {
                (one, two) = (two, one);
            }
            points.push(one);
            if two != one {
                points.push(two);
            }
        }
        points
    }
}

fn joined(one: Stretch, two: Stretch) -> Stretch {
    Stretch {
        low: if two.low.1 < one.low.1 { two.low } else { one.low },
        high: if two.high.1 > one.high.1 { two.high } else { one.high },
        count: one.count + two.count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        let mut series = Thinned::new(20);
        (0..10).for_each(|x| series.add(f64::from(x), f64::from(x % 3)));
        assert_eq!(series.points(), (0..10).map(|x| (f64::from(x), f64::from(x % 3))).collect::<Vec<_>>());
    }

    #[test]
    fn of_many_the_extremes_stay_in_order() {
        for count in [1999, 2000, 2001, 54_321] {
            let mut series = Thinned::new(2000);
            for x in 0..count {
                series.add(f64::from(x), if x == count / 3 { 1e9 } else { f64::from(x % 100) });
            }
            let points = series.points();
            assert!(points.len() <= 2000 && points.len() >= 900, "{}", points.len());
            assert!(points.is_sorted_by(|a, b| a.0 < b.0));
            assert!(points.contains(&(f64::from(count / 3), 1e9)) && points.iter().any(|p| p.1 == 0.0));
        }
    }
}
