package org.flashmob.app;

/** What the node did in a second, between two looks at its counters. */
final class Rates {
    static final Rates NONE = new Rates(0, 0, 0);

    final double requestsPerSecond;
    final double readBytesPerSecond;
    final double writeBytesPerSecond;

    Rates(double requestsPerSecond, double readBytesPerSecond, double writeBytesPerSecond) {
        this.requestsPerSecond = requestsPerSecond;
        this.readBytesPerSecond = readBytesPerSecond;
        this.writeBytesPerSecond = writeBytesPerSecond;
    }

    /** By the node's own clock, so that a late look does not look like a burst. */
    static Rates between(NodeStatus before, NodeStatus after) {
        if (before == null) {
            return NONE;
        }
        double seconds = after.uptimeSeconds - before.uptimeSeconds;
        // Counters that went back are those of another process.
        if (seconds <= 0 || after.requests < before.requests) {
            return NONE;
        }
        return new Rates((after.requests - before.requests) / seconds, (after.readBytes - before.readBytes) / seconds,
                (after.writeBytes - before.writeBytes) / seconds);
    }
}
