//! Whether heat or a weak supply slows this device down at this moment.

use flashmob_host::watch;

use super::Finding;
use crate::view::View;

pub(super) fn look(view: &View) -> Finding {
    let slowed = watch::Watch::begin_at(view.root(), &None).end().throttled;
    if let Some(slowed) = slowed {
        return Finding::wrong(slowed, "everything that the processors do takes longer, and unevenly so")
            .with_advice("cool it, take it out of its case or off the charger, or give it a stronger supply");
    }
    // Most devices tell something; a virtual machine tells nothing.
    let tells = !view.names("sys/class/thermal").is_empty()
        || view.root().join("sys/devices/system/cpu/cpu0/thermal_throttle").exists()
        || view.root().join("sys/devices/platform/soc/soc:firmware/get_throttled").exists();
    if tells {
        Finding::well("nothing says that it is slowed down")
    } else {
        Finding::unknown("nothing here tells of heat, as in virtual machines")
    }
}
