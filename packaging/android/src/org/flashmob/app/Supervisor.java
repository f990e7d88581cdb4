package org.flashmob.app;

/**
 * When the node's process is to run, and what became of it: a state machine without a process, a thread or a clock, so that its tests need none.
 *
 * <p>A node that dies is started again, later and later; after {@link Pace#failuresMax} deaths in a row it is given up, for a
 * device that starts a broken program for ever is only warm. A node that is no longer wanted, or that must pause, is asked to end and
 * finishes what it has in hand; only one that does not end is killed.
 */
final class Supervisor {
    enum Phase { STOPPED, STARTING, SERVING, STOPPING, PAUSED, WAITING, FAILED }

    /** Why it may not run now. */
    enum Hold { LOW_BATTERY, NO_WIFI }

    /** What it wants done. */
    interface Hands {
        void spawn();

        void terminate();

        void kill();
    }

    /** How long it waits. Tests have less patience. */
    static final class Pace {
        long backoffFirstMs = 1_000;
        long backoffMostMs = 30_000;
        /** One that served for so long is sound: its next death is the first of a row. */
        long soundAfterMs = 60_000;
        /** A flush of an old eMMC takes seconds. */
        long killAfterMs = 20_000;
        int failuresMax = 5;
    }

    private static final long NEVER = Long.MAX_VALUE;

    private final Pace pace;
    private final Hands hands;
    private boolean wanted;
    private Hold hold;
    private boolean alive;
    private boolean answered;
    private boolean terminating;
    private boolean failed;
    private int failures;
    private long answeredAtMs;
    private long retryAtMs;
    private long killAtMs = NEVER;
    private String lastDeath = "";

    Supervisor(Pace pace, Hands hands) {
        this.pace = pace;
        this.hands = hands;
    }

    void start(long nowMs) {
        wanted = true;
        failed = false;
        failures = 0;
        retryAtMs = nowMs;
        settle(nowMs);
    }

    void stop(long nowMs) {
        wanted = false;
        failed = false;
        settle(nowMs);
    }

    /** Ends a running node so that another with other settings takes its place; starts none that is not wanted. */
    void restart(long nowMs) {
        if (alive && !terminating) {
            askToEnd(nowMs);
        }
    }

    /** Something forbids serving now, or (null) nothing does any more. */
    void hold(Hold reason, long nowMs) {
        hold = reason;
        settle(nowMs);
    }

    /** The process answers: it serves. */
    void answered(long nowMs) {
        if (alive && !answered) {
            answered = true;
            answeredAtMs = nowMs;
        }
    }

    /** The process ended, or could not be started at all. */
    void ended(String death, long nowMs) {
        boolean asked = terminating;
        alive = false;
        terminating = false;
        killAtMs = NEVER;
        if (!asked) {
            lastDeath = death;
            boolean sound = answered && nowMs - answeredAtMs >= pace.soundAfterMs;
            failures = sound ? 1 : failures + 1;
            failed = failures >= pace.failuresMax;
            retryAtMs = nowMs + backoffMs();
        }
        answered = false;
        settle(nowMs);
    }

    /** Does what is due; to be called at {@link #nextMs} at the latest. */
    void tick(long nowMs) {
        if (nowMs >= killAtMs) {
            killAtMs = NEVER;
            hands.kill();
        }
        settle(nowMs);
    }

    /** When something will be due, on the clock of the calls; Long.MAX_VALUE if nothing will. */
    long nextMs() {
        return phase() == Phase.WAITING ? Math.min(retryAtMs, killAtMs) : killAtMs;
    }

    Phase phase() {
        if (alive) {
            return terminating ? Phase.STOPPING : answered ? Phase.SERVING : Phase.STARTING;
        }
        if (failed) {
            return Phase.FAILED;
        }
        if (!wanted) {
            return Phase.STOPPED;
        }
        return hold != null ? Phase.PAUSED : Phase.WAITING;
    }

    Hold holdReason() {
        return hold;
    }

    int failures() {
        return failures;
    }

    long retryAtMs() {
        return retryAtMs;
    }

    String lastDeath() {
        return lastDeath;
    }

    private void settle(long nowMs) {
        boolean may = wanted && !failed && hold == null;
        if (alive && !may && !terminating) {
            askToEnd(nowMs);
        } else if (!alive && may && nowMs >= retryAtMs) {
            // First, for a spawn that fails calls ended() before it returns.
            alive = true;
            hands.spawn();
        }
    }

    private void askToEnd(long nowMs) {
        terminating = true;
        killAtMs = nowMs + pace.killAfterMs;
        hands.terminate();
    }

    private long backoffMs() {
        long backoffMs = pace.backoffFirstMs << Math.min(failures - 1, 20);
        return Math.min(backoffMs, pace.backoffMostMs);
    }
}
