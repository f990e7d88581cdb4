package org.flashmob.app;

import android.content.res.Resources;
import java.text.NumberFormat;
import java.util.Locale;

/** What the state is called, in words; the screen and the notification use the same. */
final class Words {
    private static final long KIB = 1L << 10;
    private static final long MIB = 1L << 20;
    private static final long GIB = 1L << 30;

    private final Resources resources;

    Words(Resources resources) {
        this.resources = resources;
    }

    String title(Snapshot snapshot) {
        switch (snapshot.phase) {
            case STARTING:
                return resources.getString(Enrolment.digits(snapshot.log) == null ? R.string.state_starting : R.string.state_enrolling);
            case SERVING:
                int gateways = snapshot.status == null ? 0 : snapshot.status.gateways;
                // Plurals have no zero in English, and it is worth a word of its own.
                return gateways == 0
                        ? resources.getString(R.string.state_serving_none)
                        : resources.getQuantityString(R.plurals.state_serving, gateways, gateways);
            case STOPPING:
                return resources.getString(R.string.state_stopping);
            case PAUSED:
                return resources.getString(R.string.state_paused);
            case WAITING:
                return resources.getString(R.string.state_waiting);
            case FAILED:
                return resources.getString(R.string.state_failed);
            default:
                return resources.getString(R.string.state_stopped);
        }
    }

    /** The sentence below the title. */
    String detail(Snapshot snapshot) {
        switch (snapshot.phase) {
            case STARTING:
                String digits = Enrolment.digits(snapshot.log);
                return digits == null ? resources.getString(R.string.detail_starting) : resources.getString(R.string.detail_enrolling, digits);
            case SERVING:
                return serving(snapshot);
            case STOPPING:
                return resources.getString(R.string.detail_stopping);
            case PAUSED:
                return resources.getString(
                        snapshot.hold == Supervisor.Hold.LOW_BATTERY ? R.string.detail_low_battery : R.string.detail_no_wifi,
                        DeviceState.LOW_BATTERY_PERCENT);
            case WAITING:
                return resources.getString(R.string.detail_waiting, snapshot.death, (snapshot.retryInMs + 999) / 1000);
            case FAILED:
                return resources.getString(R.string.detail_failed, snapshot.death, snapshot.failures);
            default:
                return resources.getString(R.string.detail_stopped);
        }
    }

    /** For the notification: without figures, which would be old there. */
    String notice(Snapshot snapshot) {
        switch (snapshot.phase) {
            case SERVING:
                return snapshot.status == null ? "" : resources.getString(R.string.notice_serving, size(snapshot.status.sizeBytes));
            case WAITING:
                return snapshot.death;
            default:
                return detail(snapshot);
        }
    }

    private String serving(Snapshot snapshot) {
        NodeStatus status = snapshot.status;
        String rates = status == null || status.gateways == 0
                ? resources.getString(R.string.detail_serving_none)
                : resources.getString(R.string.detail_serving, rate(snapshot.rates.readBytesPerSecond), rate(snapshot.rates.writeBytesPerSecond));
        // What the node itself warns of, such as a disk that fills.
        return status == null || status.warning.isEmpty() ? rates : rates + "\n" + status.warning;
    }

    static String figure(double value) {
        return NumberFormat.getIntegerInstance(Locale.getDefault()).format(Math.round(value));
    }

    /** In powers of 1024, as sizes of extents are given to flashmob. */
    static String size(long bytes) {
        if (bytes >= GIB) {
            return number((double) bytes / GIB) + "\u00a0GiB";
        }
        return bytes >= MIB ? number((double) bytes / MIB) + "\u00a0MiB" : number((double) bytes / KIB) + "\u00a0KiB";
    }

    /** In powers of 1000, as rates of networks are. */
    static String rate(double bytesPerSecond) {
        if (bytesPerSecond >= 1e6) {
            return number(bytesPerSecond / 1e6) + "\u00a0MB/s";
        }
        return number(bytesPerSecond / 1e3) + "\u00a0kB/s";
    }

    /** Three digits at most where that is enough. */
    private static String number(double value) {
        NumberFormat format = NumberFormat.getNumberInstance(Locale.getDefault());
        format.setMaximumFractionDigits(value < 100 && value != Math.rint(value) ? 1 : 0);
        return format.format(value);
    }
}
