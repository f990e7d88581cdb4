package org.flashmob.app;

import java.util.Collections;
import java.util.List;

/** All that the screen and the notification show of the node, at one moment. Never changed once made. */
final class Snapshot {
    static final Snapshot STOPPED = bare(Supervisor.Phase.STOPPED);
    static final Snapshot STARTING = bare(Supervisor.Phase.STARTING);

    /** How many starts had been asked for by then; one that is older than the last start says nothing of it. */
    final int starts;
    final Supervisor.Phase phase;
    /** Why it pauses; null if it does not. */
    final Supervisor.Hold hold;
    /** Why it died last; empty if it has not. */
    final String death;
    final int failures;
    /** When it is started again, in ms from the moment of the snapshot. */
    final long retryInMs;
    /** What the node said last; null until it answers. */
    final NodeStatus status;
    final Rates rates;
    /** Requests a second, the newest last. */
    final float[] history;
    final List<String> log;

    Snapshot(int starts, Supervisor.Phase phase, Supervisor.Hold hold, String death, int failures, long retryInMs, NodeStatus status,
            Rates rates, float[] history, List<String> log) {
        this.starts = starts;
        this.phase = phase;
        this.hold = hold;
        this.death = death;
        this.failures = failures;
        this.retryInMs = retryInMs;
        this.status = status;
        this.rates = rates;
        this.history = history;
        this.log = log;
    }

    private static Snapshot bare(Supervisor.Phase phase) {
        return new Snapshot(0, phase, null, "", 0, 0, null, Rates.NONE, new float[0], Collections.<String>emptyList());
    }

    /** Whether a process runs or is about to. */
    boolean isBusy() {
        return phase == Supervisor.Phase.STARTING || phase == Supervisor.Phase.SERVING || phase == Supervisor.Phase.STOPPING
                || phase == Supervisor.Phase.WAITING;
    }

    /** Whether there is nothing left for the service to do. */
    boolean isOver() {
        return phase == Supervisor.Phase.STOPPED || phase == Supervisor.Phase.FAILED;
    }
}
